"""Pages and pictures about runs: SVG and HTML written here, whole in one file, without the network."""
