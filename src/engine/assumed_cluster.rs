//! A cluster that is not contacted: empty, with a declared release of Kubernetes. It shows which images the charts of a
//! plan run before there is a cluster.

use super::cluster_session::build_helm_options;
use super::host_session::host_side_error;
use super::observation_settings::ObservationSettings;
use super::read_only_session::{ReadOnlySession, SessionClosing, SessionFuture};
use super::run_options::RunOptions;
use crate::config::Project;
use crate::kube::HelmOptions;
use crate::model::{SecretStore, Value};
use crate::object::{ClusterAccess, ObjectDryRun, ObjectInfo, ObjectState};
use crate::probe::{Observation, Probe, ProbeReading, ScriptAccount, UnansweredReason};
use crate::transport::TransportError;
use serde_json::json;
use std::collections::BTreeSet;

/// A session to that cluster.
pub(super) struct AssumedCluster {
    access: ClusterAccess,
    helm: HelmOptions,
    /// `v1.34.0`
    version: String,
    settings: ObservationSettings,
}

impl AssumedCluster {
    /// Opens the session for a release such as `1.34` or `v1.34.2`.
    pub fn open(project: &Project, options: &RunOptions, release: &str) -> Result<Self, TransportError> {
        let access = project.kubernetes.as_ref();
        let access = access.ok_or_else(|| host_side_error("the inventory has no `kubernetes`".to_owned()))?.clone();
        let helm = build_helm_options(options);
        Ok(Self {
            access,
            helm,
            version: complete_version(release),
            settings: ObservationSettings::from_options(options),
        })
    }

    async fn answer_probe(&self, probe: &Probe, secrets: &SecretStore) -> Result<ProbeReading, UnansweredReason> {
        Ok(match probe {
            Probe::Release(asked) => {
                let state = self.helm.render_offline(&self.access, asked, &self.version, secrets).await;
                ProbeReading::Release(Box::new(state.map_err(|error| UnansweredReason::new(error.message))?))
            }
            Probe::Object { want, .. } => {
                ProbeReading::Object(ObjectState::Known(Box::new(new_object(want.as_deref()))))
            }
            Probe::Objects(_) => ProbeReading::Objects(Some(Vec::new())),
            Probe::Contents { .. } => ProbeReading::Contents(Default::default()),
            Probe::Proof { .. } => ProbeReading::Proof(Box::default()),
            Probe::Records => ProbeReading::Records(Box::default()),
            Probe::Account => ProbeReading::Account(ScriptAccount::Root),
            Probe::ClusterFact { name } => ProbeReading::ClusterFact(self.assume_fact(name)),
            _ => return Err(UnansweredReason::new("is a probe for a host")),
        })
    }

    /// Returns the data of a fact: the release of Kubernetes, and no node.
    fn assume_fact(&self, name: &str) -> Value {
        let mut parts = self.version.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next(), parts.next());
        match name {
            "kubernetes_version" => json!({ "gitVersion": self.version, "major": major, "minor": minor }),
            _ => json!([]),
        }
    }
}

impl ReadOnlySession for AssumedCluster {
    fn observe<'s>(&'s self, probes: &'s BTreeSet<Probe>, secrets: &'s SecretStore) -> SessionFuture<'s, Observation> {
        let ask = async move {
            let mut seen = Observation::default();
            for probe in probes {
                seen.record_api_answer(probe.clone(), self.answer_probe(probe, secrets).await);
            }
            Ok(seen)
        };
        Box::pin(self.settings.observe_and_stamp(ask))
    }

    fn close(self: Box<Self>) -> SessionClosing {
        Box::pin(async {})
    }
}

/// Returns an object that does not exist, and that an apply would create as declared.
fn new_object(want: Option<&str>) -> ObjectInfo {
    let want = want.and_then(|text| serde_json::from_str(text).ok());
    ObjectInfo { dry: want.map(ObjectDryRun::Becomes), ..ObjectInfo::default() }
}

/// Returns the release in the form that helm takes: `v1.34.0` for `1.34`.
fn complete_version(release: &str) -> String {
    let release = release.trim_start_matches('v');
    match release.matches('.').count() {
        1 => format!("v{release}.0"),
        _ => format!("v{release}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_of_kubernetes_is_completed() {
        assert_eq!(
            ["1.34", "v1.34", "1.34.2", "v1.34.2"].map(complete_version),
            ["v1.34.0", "v1.34.0", "v1.34.2", "v1.34.2"]
        );
    }
}
