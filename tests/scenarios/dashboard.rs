//! The dashboard of the recipe dcgm-monitoring: valid JSON for Grafana, with names of metrics that exporters have.

use forge::config::builtin_data;
use serde_json::Value;
use std::collections::BTreeSet;

fn dashboard() -> Value {
    let (_, recipe) = builtin_data::BUILTIN_RECIPES.iter().find(|(name, _)| *name == "dcgm-monitoring").unwrap();
    let text = recipe.split("{%- raw %}").nth(1).and_then(|rest| rest.split("{%- endraw %}").next()).unwrap();
    serde_json::from_str(text).unwrap()
}

/// Returns the names of metrics in an expression.
fn metrics(expr: &str) -> impl Iterator<Item = &str> {
    let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("DCGM_") || word.starts_with("node_"))
}

#[test]
fn dashboard_queries_only_exported_metrics() {
    let exported = concat!(
        include_str!("../samples/dcgm-exporter-names.txt"),
        include_str!("../samples/node-infiniband-names.txt")
    );
    let exported: BTreeSet<&str> = exported.lines().collect();
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            let read: Vec<&str> = metrics(target["expr"].as_str().unwrap()).collect();
            assert!(!read.is_empty(), "{target}");
            assert!(read.iter().all(|name| exported.contains(name)), "{read:?}");
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap().iter().filter(|one| one["type"] == "query") {
        let read: Vec<&str> = metrics(variable["query"]["query"].as_str().unwrap()).collect();
        assert!(read.len() == 1 && exported.contains(read[0]), "{variable}");
    }
    assert!(panels.len() > 10);
}
