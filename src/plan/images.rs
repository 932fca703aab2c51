//! The container images of a plan: those that a mirror must contain before the cluster needs them.

use super::{HostReachability, Plan, StepPlan};
use crate::model::{HostName, StepId, StepScope};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The images that the steps of a plan run, whether or not the steps change anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanImages {
    /// The steps that run each image.
    pub images: BTreeMap<String, BTreeSet<StepId>>,
    /// For images in a mirror, the images that they are copies of, as far as they are known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, String>,
    /// Steps whose images could not be determined, so the list does not contain them.
    pub open: BTreeSet<StepId>,
    /// Whether the cluster's API did not answer: then nothing is known about its charts.
    pub silent: bool,
    /// Hosts that were not observed, so the list does not contain the images of their steps.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub unseen: BTreeSet<HostName>,
}

impl Plan {
    /// Returns the images that the plan's steps run. Those of a chart are known once it is rendered.
    pub fn list_images(&self) -> PlanImages {
        let mut found = PlanImages::default();
        for host in &self.hosts {
            let unseen = host.missing.is_some() || host.reach != HostReachability::Observed;
            match host.host.is_cluster() {
                true => found.silent |= unseen,
                false if unseen => drop(found.unseen.insert(host.host.clone())),
                false => {}
            }
            host.steps.iter().for_each(|step| found.add_step(step, &host.host));
        }
        found
    }
}

impl PlanImages {
    fn add_step(&mut self, step: &StepPlan, host: &HostName) {
        let open = host.is_cluster() && step.scope == StepScope::Cluster && step.is_undetermined();
        if step.runs_unknown_images || (open && step.images.is_empty()) {
            self.open.insert(step.id.clone());
        }
        self.sources.extend(step.image_sources.clone());
        for image in &step.images {
            self.images.entry(image.clone()).or_default().insert(step.id.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn plan(reach: &Value) -> Plan {
        let step = |name: &str, verdict: &str, images: &[&str]| {
            json!({
                "id": { "recipe": "base", "step": name }, "kind": "manifest", "title": "objects", "verdict": verdict, "reason": "because",
                "disruption": "D0", "scope": "cluster", "level": "L0", "basis": "1", "place": "r.yaml:1:1", "long": false, "images": images,
            })
        };
        let steps = [
            step("a", "ok", &["r/b:1", "r/a:1"]),
            step("b", "change", &["r/a:1"]),
            step("known", "unknown", &["r/c:1"]),
            step("open", "unknown", &[]),
        ];
        let mut maker = step("maker", "change", &["r/d:1"]);
        maker["scope"] = json!("one");
        let mut vague = maker.clone();
        (vague["id"]["step"], vague["images"], vague["runs_unknown_images"]) = ("vague".into(), json!([]), true.into());
        let host = json!({ "host": "n1", "reach": "observed", "verify": [], "steps": [maker, vague] });
        let down =
            json!({ "host": "n2", "reach": { "unreachable": { "why": "it is off" } }, "verify": [], "steps": [] });
        let cluster = json!({ "host": HostName::CLUSTER, "reach": reach, "verify": [], "steps": steps });
        let hosts = [host, down, cluster];
        let plan =
            json!({ "version": 1, "forge": "0.1.0", "cluster": "c", "inventory": "i", "id": "1", "hosts": hosts });
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn images_are_listed_once_and_what_is_missing_is_named() {
        let found = plan(&json!("observed")).list_images();
        assert_eq!(found.images.keys().collect::<Vec<_>>(), ["r/a:1", "r/b:1", "r/c:1", "r/d:1"]);
        assert_eq!(found.images["r/a:1"], [StepId::new("base", "a"), StepId::new("base", "b")].into());
        let open = [StepId::new("base", "open"), StepId::new("base", "vague")];
        assert_eq!((&found.open, found.silent), (&open.into(), false));
        assert_eq!(found.unseen.iter().map(ToString::to_string).collect::<Vec<_>>(), ["n2"]);
        let silent = plan(&json!({ "unreachable": { "why": "it does not answer" } }));
        assert!(silent.list_images().silent);
    }
}
