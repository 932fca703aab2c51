//! Checks the connection to the cluster's API and the permissions there.

use super::super::cluster_session::open_cluster;
use super::super::run_options::RunOptions;
use super::finding::{DoctorFinding, DoctorSeverity};
use crate::config::Project;
use crate::kube::{ApiPermission, KubeError, query_helm_version};
use crate::object::{ClusterAbsence, ClusterAccess};
use crate::resource::ProvidedItem;
use std::collections::BTreeSet;

/// The permission that covers all cluster steps: every verb on every object in every namespace.
const ALL_RIGHTS: ApiPermission = ApiPermission { verb: "*", group: "*", resource: "*" };

/// Returns the findings, in the order in which the checks build on each other.
pub async fn check_cluster(project: &Project, access: &ClusterAccess, options: &RunOptions) -> Vec<DoctorFinding> {
    let (mut found, helm) = tokio::join!(check_api(project, access, options), check_helm(access));
    found.push(helm);
    found
}

async fn check_api(project: &Project, access: &ClusterAccess, options: &RunOptions) -> Vec<DoctorFinding> {
    let cluster = match open_cluster(project, access, options).await {
        Ok(cluster) => cluster,
        Err(error) => return vec![report_unopened(error, &list_cluster_steps(project))],
    };
    // The version is readable without authentication.
    let (version, rights) = tokio::join!(cluster.server_version(), cluster.has_permission(ALL_RIGHTS));
    let found = match (version, rights) {
        (Err(error), _) | (_, Err(error)) => vec![report_problem("api", error)],
        (Ok(version), Ok(all)) => {
            vec![
                DoctorFinding::new(DoctorSeverity::Ok, "api", format!("`{}` is {version}", cluster.server())),
                self::report_rights(access, all),
            ]
        }
    };
    cluster.close().await;
    found
}

/// Returns the applied steps that create the cluster: `` `kubeadm/begin` ``.
fn list_cluster_steps(project: &Project) -> BTreeSet<String> {
    let applied = project.instances.values().flatten().map(|instance| &instance.recipe);
    let steps = applied.flat_map(|recipe| recipe.steps.iter().map(move |step| (recipe, step)));
    let makers = steps.filter(|(_, step)| step.provides.contains(&ProvidedItem::Cluster));
    makers.map(|(recipe, step)| format!("`{}/{}`", recipe.name, step.name)).collect()
}

/// A kubeconfig that does not exist prevents an apply, unless `makers` create it with the cluster.
pub(super) fn report_unopened(error: KubeError, makers: &BTreeSet<String>) -> DoctorFinding {
    if error.absence != Some(ClusterAbsence::NoKubeconfig) || makers.is_empty() {
        return report_problem("kubeconfig", error);
    }
    let names = makers.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let creation = if makers.len() == 1 { "creates it" } else { "create it" };
    DoctorFinding::new(DoctorSeverity::Note, "kubeconfig", error.message)
        .with_hint(format!("if the cluster does not exist yet, {names} {creation} during the run"))
}

fn report_rights(access: &ClusterAccess, all: bool) -> DoctorFinding {
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
        .with_hint("steps may be rejected as forbidden; use a context with cluster-admin rights"),
    }
}

async fn check_helm(access: &ClusterAccess) -> DoctorFinding {
    match query_helm_version("helm".into(), &access.withheld).await {
        Ok(version) => DoctorFinding::new(DoctorSeverity::Ok, "helm", version.text),
        Err(error) => report_error(DoctorSeverity::Note, "helm", error),
    }
}

fn report_problem(check: &'static str, error: KubeError) -> DoctorFinding {
    report_error(DoctorSeverity::Problem, check, error)
}

fn report_error(weight: DoctorSeverity, check: &'static str, error: KubeError) -> DoctorFinding {
    let found = DoctorFinding::new(weight, check, error.message);
    match error.hint {
        Some(hint) => found.with_hint(hint),
        None => found,
    }
}
