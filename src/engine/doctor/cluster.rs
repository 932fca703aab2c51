//! Checks the connection to the cluster's API and the permissions there.

use super::super::api::cluster;
use super::super::run::RunOptions;
use super::{DoctorFinding, DoctorSeverity};
use crate::config::Project;
use crate::kube::{ApiPermission, ClusterAccess, KubeError, helm_version};

/// The permission that covers all cluster steps: every verb on every object in every namespace.
const EVERYTHING: ApiPermission = ApiPermission { verb: "*", group: "*", resource: "*" };

/// Returns the findings, in the order in which the checks build on each other.
pub async fn findings(project: &Project, access: &ClusterAccess, options: &RunOptions) -> Vec<DoctorFinding> {
    let (mut found, helm) = tokio::join!(api(project, access, options), helm(access));
    found.push(helm);
    found
}

async fn api(project: &Project, access: &ClusterAccess, options: &RunOptions) -> Vec<DoctorFinding> {
    let cluster = match cluster(project, access, options).await {
        Ok(cluster) => cluster,
        Err(error) => return vec![problem("kubeconfig", error)],
    };
    // The version is readable without authentication.
    let (version, rights) = tokio::join!(cluster.version(), cluster.may(EVERYTHING));
    let found = match (version, rights) {
        (Err(error), _) | (_, Err(error)) => vec![problem("api", error)],
        (Ok(version), Ok(all)) => {
            vec![
                DoctorFinding::new(DoctorSeverity::Ok, "api", format!("`{}` is {version}", cluster.server())),
                self::rights(access, all),
            ]
        }
    };
    cluster.close().await;
    found
}

fn rights(access: &ClusterAccess, all: bool) -> DoctorFinding {
    match all {
        true => DoctorFinding::new(
            DoctorSeverity::Ok,
            "rights",
            format!("context `{}` has full permissions", access.context),
        ),
        false => DoctorFinding::new(
            DoctorSeverity::Note,
            "rights",
            format!("context `{}` has limited permissions", access.context),
        )
        .hint("steps may be rejected as forbidden; use a context with cluster-admin rights"),
    }
}

async fn helm(access: &ClusterAccess) -> DoctorFinding {
    match helm_version("helm".into(), &access.withheld).await {
        Ok(version) => DoctorFinding::new(DoctorSeverity::Ok, "helm", version.text),
        Err(error) => finding(DoctorSeverity::Note, "helm", error),
    }
}

fn problem(check: &'static str, error: KubeError) -> DoctorFinding {
    finding(DoctorSeverity::Problem, check, error)
}

fn finding(weight: DoctorSeverity, check: &'static str, error: KubeError) -> DoctorFinding {
    let found = DoctorFinding::new(weight, check, error.message);
    match error.hint {
        Some(hint) => found.hint(hint),
        None => found,
    }
}
