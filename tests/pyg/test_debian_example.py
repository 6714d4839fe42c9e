"""The worked example of docs/ingest.md, on a stand-in for a machine's package manager."""

import random

import pytest
import ready

import gz

SECTIONS = ("admin", "libs", "python")


def stand_in(folder, packages=300):
    """A dpkg folder whose packages depend on, and are maintained by, those of their own section."""
    rng = random.Random(4)
    (folder / "info").mkdir(parents=True)
    records, expected = [], set()
    for i in range(packages):
        name, section = f"lib{i:03}", SECTIONS[i % 3]
        others = [f"lib{j:03}" for j in rng.sample(range(i % 3, packages, 3), 3)]
        depends = ", ".join([f"{others[0]} (>= 1.{i})", f"{others[1]}:any | not-installed", *others[2:]])
        expected |= {(name, other) for other in others}
        lines = [f"Package: {name}", "Status: install ok installed", f"Section: {section}"]
        lines += [f"Installed-Size: {100 + i}"] if i % 7 else []
        lines += [f"Maintainer: Team {section}, {i % 2} <{section}@example.org>", f"Depends: {depends}"]
        records.append("\n".join([*lines, "Description: something", " Section: not this one"]))
        if i % 5:
            (folder / "info" / f"{name}.list").write_text("/\n")
    (folder / "status").write_text("\n\n".join(records) + "\n")
    return expected


@pytest.mark.slow
def test_packages_become_a_store_and_a_model_learns_from_them(repository, tmp_path):
    expected = stand_in(tmp_path / "dpkg")
    script = repository / "examples" / "debian.py"
    options = ["--dpkg", str(tmp_path / "dpkg"), "--work", str(tmp_path / "w"), "--epochs", "15"]
    run = ready.run([script, *options], ready.PYG)
    assert run.returncode == 0, run.stderr
    store = gz.open(tmp_path / "w" / "store")
    assert store.num_nodes("package") == 300
    assert store.num_nodes("maintainer") == 6
    assert store.categories("section", "package") == list(SECTIONS)
    assert store.unit("installed", "package") == "date32[day]"
    ids, g = store.id_map("package"), store.graph(("package", "depends", "package"))
    names = ids.to_original(range(300))
    found = {(names[a], names[b]) for b in range(300) for a in g.neighbors(b).tolist()}
    assert found == expected
    accuracy = float(run.stdout.strip().split()[-1])
    assert accuracy > 0.9
    assert len((repository / "examples" / "debian.toml").read_text().splitlines()) <= 15


def test_the_spec_in_the_docs_is_the_one_that_runs(repository):
    spec = (repository / "examples" / "debian.toml").read_text()
    assert f"```toml\n{spec}```" in (repository / "docs" / "ingest.md").read_text()
