//! Built-in charts: embedded in the program.

/// A built-in chart.
#[derive(Debug)]
pub struct BuiltinChart {
    /// The name of the chart, as recipes use it and as in its `Chart.yaml`.
    pub name: &'static str,
    /// As in its `Chart.yaml`.
    pub version: &'static str,
    /// Path in the chart, and content.
    pub(crate) files: &'static [(&'static str, &'static str)],
}

macro_rules! chart {
    ($name:literal, $version:literal: $($file:literal),* $(,)?) => {
        BuiltinChart {
            name: $name,
            version: $version,
            files: &[$((
                $file,
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/recipes/charts/", $name, "/", $file)),
            )),*],
        }
    };
}

/// Every built-in chart, by name.
const BUILTIN_CHARTS: &[BuiltinChart] = &[chart!("rdma-shared-device-plugin", "1.0.0":
    "Chart.yaml",
    "templates/config.yaml",
    "templates/daemonset.yaml",
    "values.yaml",
)];

/// Returns the built-in charts.
pub fn list_builtin_charts() -> &'static [BuiltinChart] {
    BUILTIN_CHARTS
}
