// LABOR sampling: Balin and Catalyurek, "Layer-Neighbor Sampling: Defusing Neighborhood Explosion in GNNs",
// NeurIPS 2023 (arXiv:2210.13339). Written from the paper; names follow it: A edge weights, c per seed, pi
// and r per neighbour. An edge t -> s is taken when r_t <= c_s pi_t; c_s makes the variance what a plain
// sample of k neighbours would have (equation 14); importance rounds raise pi of neighbours that many seeds
// want.
#include "sample/labor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"
#include "base/threads.h"
#include "pick/edge_values.h"
#include "pick/weights.h"
#include "sample/node_table.h"

namespace gz {
namespace {

constexpr double kClose = 1e-4;
constexpr int kMaxRounds = 100;

// All edges of the seeds, flat: seed i's are begin[i] .. begin[i + 1].
struct Candidates : LaborPicks {
  std::vector<uint64_t> begin;
  PooledArray<int64_t> local;     // neighbour numbered within this layer
  PooledArray<int64_t> distinct;  // global ids by local number
  std::vector<double> weight;     // A; empty: all 1

  double a(size_t e) const { return weight.empty() ? 1.0 : weight[e]; }
};

// What brings `most` near 1, where squares of such weights would end at 0 or at infinity. A power of two: it
// changes no result but its exponent.
int scale_for(double most) {
  return most > 0 && (most > 1e150 || most < 1e-150) ? -std::ilogb(most) : 0;
}

// Only the ratios of weights matter.
void scale_to_one(std::vector<double>& weights) {
  const int scale = weights.empty() ? 0 : scale_for(*std::max_element(weights.begin(), weights.end()));
  if (scale)
    for (double& w : weights) w = std::ldexp(w, scale);
}

void pick_all(const EdgeType& type, const LayerSeeds& seeds, LaborPicks& out) {
  pick(*type.topology, {}, {.nodes = seeds.nodes, .size = seeds.size}, 0,
       {.fanout = -1, .most = NodeTable<uint64_t>::kMost}, out.positions, out.neighbours, out.owners);
}

std::vector<uint64_t> begins(const PooledArray<int64_t>& owners, size_t seeds) {
  std::vector<uint64_t> begin(seeds + 1, 0);
  for (int64_t owner : owners) ++begin[static_cast<size_t>(owner) + 1];
  for (size_t i = 0; i < seeds; ++i) begin[i + 1] += begin[i];
  return begin;
}

Candidates collect(const EdgeType& type, const LayerSeeds& seeds) {
  Candidates c;
  pick_all(type, seeds, c);
  c.begin = begins(c.owners, seeds.size);
  c.local.resize(c.neighbours.size());
  std::copy(c.neighbours.begin(), c.neighbours.end(), c.local.begin());
  NodeTable<uint64_t> table;
  if (c.local.size())
    table.number(c.local.size(), 0, true, IdsToNumber<uint64_t>{c.local.data(), c.distinct});
  if (type.columns.weights) {
    c.weight.resize(c.positions.size());
    const EdgeValues weights(*type.topology, type.columns.weights, EdgeValues::By::kRow);
    weights.fetch(c.positions.data(), c.positions.size());
    parallel_for(c.positions.size(), 4096, [&](size_t begin, size_t end) {
      for (size_t e = begin; e < end; ++e)
        c.weight[e] = weight_at(*type.topology, type.columns.weights, static_cast<uint64_t>(c.positions[e]));
    });
    scale_to_one(c.weight);
  }
  return c;
}

double normal(uint64_t seed, uint64_t t) {
  Rng rng(fold(seed, t));
  const double radius = std::sqrt(-2 * std::log(rng.unit_positive()));
  return radius * std::cos(2 * M_PI * rng.unit());
}

// r_t, uniform. With a second seed the two are blended on a circle, so that r moves slowly between batches.
double roll(const LaborOptions& o, int64_t t) {
  const auto id = static_cast<uint64_t>(t);
  if (o.second_share <= 0) return Rng(fold(fold(0, o.random_seed), id)).unit_positive();
  const double angle = o.second_share * M_PI / 2;
  const double n = std::cos(angle) * normal(fold(0, o.random_seed), id) +
                   std::sin(angle) * normal(fold(0, o.second_seed), id);
  return 0.5 * std::erfc(-n / M_SQRT2);
}

// c of one seed: sum of A^2 / min(1, c pi) equal to the variance of k plain draws, by fixed point.
template <class Pi>
double solve(const Candidates& c, size_t seed, int64_t k, double start, Pi&& pi) {
  const size_t begin = c.begin[seed], end = c.begin[seed + 1];
  double sum = 0, squares = 0, degree = 0, most = 0;
  for (size_t e = begin; e < end; ++e) most = std::max(most, c.a(e));
  const int scale = scale_for(most);
  const auto a = [&](size_t e) { return scale ? std::ldexp(c.a(e), scale) : c.a(e); };
  for (size_t e = begin; e < end; ++e) {
    sum += a(e);
    squares += a(e) * a(e);
    degree += a(e) > 0;
  }
  if (sum == 0) return 0;
  const double picks = std::min(static_cast<double>(k), degree);
  const double target = sum * sum / picks - sum * sum / degree + squares;
  double x = start > 0 ? start : std::ldexp(picks / sum, scale);
  for (int round = 0; round < kMaxRounds; ++round) {
    double variance = 0;
    for (size_t e = begin; e < end; ++e)
      if (a(e) > 0) variance += a(e) * a(e) / std::min(1.0, x * pi(e));
    x *= variance / target;
    if (std::min(variance, target) >= std::max(variance, target) * (1 - kClose)) break;
  }
  return x;
}

class LaborEdgeType {
 public:
  LaborEdgeType(const EdgeType& type, int64_t fanout, const LayerSeeds& seeds, const LaborOptions& options)
      : fanout_(fanout),
        weighted_(type.columns.weights),
        seeds_(seeds),
        options_(options),
        all_(collect(type, seeds)),
        c_(seeds.size, 0) {}

  LaborPicks run() {
    const bool take_all = fanout_ < 0;
    if (!take_all) find_c();
    r_.resize(all_.distinct.size());
    parallel_for(r_.size(), 4096, [&](size_t begin, size_t end) {
      for (size_t t = begin; t < end; ++t) r_[t] = roll(options_, all_.distinct[t]);
    });
    const bool weighed = options_.importance != 0 || weighted_;
    for (size_t i = 0; i < seeds_.size; ++i) {
      const size_t first = picked_.size();
      double total = 0;
      for (size_t e = all_.begin[i]; e < all_.begin[i + 1]; ++e) {
        if (all_.a(e) <= 0) continue;
        const double p = take_all ? 1.0 : std::min(1.0, c_[i] * pi(e));
        if (r_[static_cast<size_t>(all_.local[e])] > p) continue;
        picked_.push_back(e);
        importance_.push_back(all_.a(e) / p);
        total += all_.a(e) / p;
      }
      // Scaled so that a plain mean over the edges is the estimate.
      for (size_t j = first; j < picked_.size(); ++j)
        importance_[j] *= static_cast<double>(picked_.size() - first) / total;
    }
    LaborPicks out;
    for (auto* a : {&out.positions, &out.neighbours, &out.owners}) a->resize(picked_.size());
    if (weighed) out.importance.resize(picked_.size());
    for (size_t j = 0; j < picked_.size(); ++j) {
      const size_t e = picked_[j];
      out.positions[j] = all_.positions[e];
      out.neighbours[j] = all_.neighbours[e];
      out.owners[j] = all_.owners[e];
      if (weighed) out.importance[j] = static_cast<float>(importance_[j]);
    }
    return out;
  }

 private:
  // pi is A until an importance round has run, then one number per neighbour.
  double pi(size_t e) const { return pi_.empty() ? all_.a(e) : pi_[static_cast<size_t>(all_.local[e])]; }

  void solve_all() {
    parallel_for(seeds_.size, 64, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i)
        c_[i] = solve(all_, i, fanout_, c_[i], [&](size_t e) { return pi(e); });
    });
  }

  void find_c() {
    solve_all();
    double expected = std::numeric_limits<double>::infinity();
    const int rounds = options_.importance < 0 ? kMaxRounds : options_.importance;
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> wanted(all_.distinct.size(), 0);
      for (size_t i = 0; i < seeds_.size; ++i)
        for (size_t e = all_.begin[i]; e < all_.begin[i + 1]; ++e) {
          double& most = wanted[static_cast<size_t>(all_.local[e])];
          most = std::max(most, c_[i] * pi(e));
        }
      pi_ = std::move(wanted);
      std::fill(c_.begin(), c_.end(), 0.0);
      solve_all();
      double now = 0;
      for (double p : pi_) now += std::min(1.0, p);
      if (now >= expected * (1 - kClose)) break;
      expected = now;
    }
  }

  const int64_t fanout_;
  const bool weighted_;
  const LayerSeeds& seeds_;
  const LaborOptions& options_;
  Candidates all_;
  std::vector<double> c_, pi_, r_, importance_;
  std::vector<size_t> picked_;
};

// Where all weights are 1, c is k / degree: every edge is judged by itself, and nothing has to be numbered.
LaborPicks plain_picks(const EdgeType& type, int64_t fanout, const LayerSeeds& seeds,
                       const LaborOptions& options) {
  constexpr size_t kSeeds = 256;
  LaborPicks out;
  pick_all(type, seeds, out);
  if (fanout < 0) return out;
  const std::vector<uint64_t> begin = begins(out.owners, seeds.size);
  const PooledArray<uint8_t> kept(out.owners.size());
  std::vector<size_t> place((seeds.size + kSeeds - 1) / kSeeds + 1, 0);
  parallel_for(place.size() - 1, 1, [&](size_t chunk, size_t end) {
    for (; chunk < end; ++chunk)
      for (size_t i = chunk * kSeeds, last = std::min(seeds.size, i + kSeeds); i < last; ++i) {
        const auto degree = static_cast<double>(begin[i + 1] - begin[i]);
        const double p = static_cast<double>(fanout) / degree;
        for (size_t e = begin[i]; e < begin[i + 1]; ++e) {
          kept[e] = p >= 1 || roll(options, out.neighbours[e]) <= p;
          place[chunk + 1] += kept[e];
        }
      }
  });
  for (size_t c = 1; c < place.size(); ++c) place[c] += place[c - 1];
  LaborPicks taken;
  for (auto* a : {&taken.positions, &taken.neighbours, &taken.owners}) a->resize(place.back());
  parallel_for(place.size() - 1, 1, [&](size_t chunk, size_t end) {
    for (; chunk < end; ++chunk) {
      size_t at = place[chunk];
      for (size_t e = begin[chunk * kSeeds], last = begin[std::min(seeds.size, (chunk + 1) * kSeeds)];
           e < last; ++e) {
        if (!kept[e]) continue;
        taken.positions[at] = out.positions[e];
        taken.neighbours[at] = out.neighbours[e];
        taken.owners[at++] = out.owners[e];
      }
    }
  });
  return taken;
}

}  // namespace

LaborPicks labor_picks(const EdgeType& type, int64_t fanout, const LayerSeeds& seeds,
                       const LaborOptions& options) {
  if (fanout == 0 || seeds.size == 0) return {};
  // Two blended numbers are dear: each neighbour's is then made once.
  if (options.importance == 0 && !type.columns.weights && options.second_share <= 0)
    return plain_picks(type, fanout, seeds, options);
  return LaborEdgeType(type, fanout, seeds, options).run();
}

Layer labor_layer(const std::vector<uint64_t>& num_nodes, const std::vector<LayerEdgeType>& edge_types,
                  const std::vector<LayerSeeds>& given, const LaborOptions& options) {
  const OwnSeeds own = check_layer(num_nodes, edge_types, given);
  Layer layer;
  layer.edges.resize(edge_types.size());
  for (size_t e = 0; e < edge_types.size(); ++e) {
    const LayerEdgeType& type = edge_types[e];
    const LayerSeeds& seeds = own.seeds[type.type.frontier_type];
    LaborPicks picks = labor_picks(type.type, type.fanout(), seeds, options);
    for (int64_t& owner : picks.owners) owner = seeds.nodes[owner];
    LayerEdges& out = layer.edges[e];
    out.rows = std::move(picks.positions);
    out.neighbour = std::move(picks.neighbours);
    out.frontier = std::move(picks.owners);
    out.importance = std::move(picks.importance);
    name_edges(type.type, 0, true, out);
    take_out_excluded(type, out);
  }
  return layer;
}

}  // namespace gz
