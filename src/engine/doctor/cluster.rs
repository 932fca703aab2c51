//! Checks the connection to the cluster's API and the permissions there.

use super::super::api::cluster;
use super::super::run::Options;
use super::{Finding, Weight};
use crate::config::Project;
use crate::kube::{Access, KubeError, Right, helm_version};

/// The permission that covers all cluster steps: every verb on every object in every namespace.
const EVERYTHING: Right = Right { verb: "*", group: "*", resource: "*" };

/// Returns the findings, in the order in which the checks build on each other.
pub async fn findings(project: &Project, access: &Access, options: &Options) -> Vec<Finding> {
    let (mut found, helm) = tokio::join!(api(project, access, options), helm(access));
    found.push(helm);
    found
}

async fn api(project: &Project, access: &Access, options: &Options) -> Vec<Finding> {
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
                Finding::new(Weight::Ok, "api", format!("`{}` is {version}", cluster.server())),
                self::rights(access, all),
            ]
        }
    };
    cluster.close().await;
    found
}

fn rights(access: &Access, all: bool) -> Finding {
    match all {
        true => Finding::new(Weight::Ok, "rights", format!("context `{}` has full permissions", access.context)),
        false => Finding::new(Weight::Note, "rights", format!("context `{}` has limited permissions", access.context))
            .hint("steps may be rejected as forbidden; use a context with cluster-admin rights"),
    }
}

async fn helm(access: &Access) -> Finding {
    match helm_version("helm".into(), &access.withheld).await {
        Ok(version) => Finding::new(Weight::Ok, "helm", version.text),
        Err(error) => finding(Weight::Note, "helm", error),
    }
}

fn problem(check: &'static str, error: KubeError) -> Finding {
    finding(Weight::Problem, check, error)
}

fn finding(weight: Weight, check: &'static str, error: KubeError) -> Finding {
    let found = Finding::new(weight, check, error.message);
    match error.hint {
        Some(hint) => found.hint(hint),
        None => found,
    }
}
