//! A cluster that does not exist yet, and the steps of hosts that create it.

use crate::model::{DisruptionClass, HostName, StepId, UntrustedText, Value};
use crate::object::ClusterAbsence;
use crate::resource::Assessment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A cluster that steps of this run create.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct MissingCluster {
    /// How that was found out: a lowercase fragment.
    pub why: UntrustedText,
    /// The kind of evidence.
    pub absence: ClusterAbsence,
    /// The steps that create it and have not run yet; empty until they are determined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub makers: Vec<ClusterMaker>,
}

/// A step that creates the cluster, on its host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ClusterMaker {
    /// The step whose `provides` has `cluster: true`.
    pub step: StepId,
    /// The host on which it runs.
    pub host: HostName,
}

impl fmt::Display for ClusterMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` on {}", self.step, self.host)
    }
}

impl MissingCluster {
    /// Builds the state before it is known which steps create the cluster.
    pub fn new(why: UntrustedText, absence: ClusterAbsence) -> Self {
        Self { why, absence, makers: Vec::new() }
    }

    /// Returns the steps that create it: `` `kubeadm/begin` on n1 ``.
    pub fn list_makers(&self) -> String {
        self.makers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Returns the reason for readers: a lowercase fragment.
    pub fn describe_absence(&self) -> String {
        format!("the cluster does not exist yet: {}", self.why.raw())
    }

    /// Returns how the cluster comes into being: a lowercase fragment.
    pub fn describe_creation(&self) -> String {
        match self.makers.as_slice() {
            [one] => format!("{one} creates it"),
            _ => format!("{} create it", self.list_makers()),
        }
    }

    /// Assesses a step of the cluster that is declared with a disruption or is `absent`, and says what must happen
    /// before it can be evaluated.
    pub(super) fn assess_cluster_step(
        &self,
        absent: bool,
        disruption: Option<DisruptionClass>,
    ) -> (Assessment, Option<String>) {
        // The most that a step can disturb in a cluster without workloads.
        const MOST: DisruptionClass = DisruptionClass::D1;
        if absent {
            return (Assessment::ok("the cluster does not exist yet: nothing to remove", Value::Null), None);
        }
        let disruption = disruption.unwrap_or_default().max(MOST);
        let change = Assessment::change("the cluster does not exist yet", Vec::new(), disruption, Value::Null);
        let makers: Vec<String> = self.makers.iter().map(|maker| format!("{} on {}", maker.step, maker.host)).collect();
        (change.mark_predicted(), Some(makers.join(", ")))
    }
}
