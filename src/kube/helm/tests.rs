//! Parsing of recorded helm output, and a fake helm that records its arguments.

use super::super::KubeError;
use super::chart_answers::{ChartAnswers, ChartDigest};
use super::flags::{self, HelmUpgradeOptions};
use super::output::{self, HelmReleaseMetadata, HelmRevision, HelmUpgradeDryRun, ListedRelease};
use super::program::{HelmProgram, HelmTarget};
use crate::model::SecretStore;
use crate::object::diff_manifests;
use crate::object::parse_manifest;
use crate::object::{ObjectChangeKind, ReleaseStatus};
use camino::Utf8PathBuf;
use secrecy::SecretString;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// Recorded helm output: `tests/helm`, from helm 3.19.0 and 4.1.4 with a kube-apiserver 1.33.
macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/helm/", $name))
    };
}

#[test]
fn output_of_helm_3_and_4_is_parsed() {
    for (list, metadata, values, history, ssa) in [
        (
            sample!("helm3-list.json"),
            sample!("helm3-metadata.json"),
            sample!("helm3-values.json"),
            sample!("helm3-history.json"),
            "",
        ),
        (
            sample!("helm4-list.json"),
            sample!("helm4-metadata.json"),
            sample!("helm4-values.json"),
            sample!("helm4-history.json"),
            "ssa",
        ),
    ] {
        let list: Vec<ListedRelease> = output::parse_json("list", list).unwrap();
        assert_eq!((list[0].name.as_str(), list[0].revision.as_str()), ("tiny", "2"));
        assert_eq!(list[0].chart_version("tiny"), Some("0.1.0"));
        assert_eq!(list[0].chart_version("ti"), None);
        let metadata: HelmReleaseMetadata = output::parse_json("get metadata", metadata).unwrap();
        assert_eq!((metadata.chart.as_str(), metadata.version.as_str(), metadata.revision), ("tiny", "0.1.0", 2));
        assert_eq!(metadata.apply_method, ssa);
        assert_eq!(output::parse_values(values).unwrap(), json!({ "replicas": 2 }));
        let history: Vec<HelmRevision> = output::parse_json("history", history).unwrap();
        let statuses: Vec<_> = history.iter().map(HelmRevision::status).collect();
        assert_eq!(statuses, [ReleaseStatus::Superseded, ReleaseStatus::Deployed]);
    }
}

#[test]
fn chart_version_is_split_from_names_with_dashes() {
    let listed = |chart: &str| ListedRelease {
        name: "r".into(),
        namespace: "n".into(),
        revision: "1".into(),
        status: "deployed".into(),
        chart: chart.into(),
    };
    assert_eq!(listed("gpu-operator-v1.0.0-devel").chart_version("gpu-operator"), Some("v1.0.0-devel"));
    assert_eq!(listed("gpu-operator-v1.0.0-devel").chart_version("gpu"), None);
}

#[test]
fn null_values_are_read_as_an_empty_map() {
    assert_eq!(output::parse_values("null\n").unwrap(), json!({}));
}

#[test]
fn missing_release_is_distinct_from_unreachable_cluster() {
    for said in [sample!("helm3-notfound.stderr"), sample!("helm4-notfound.stderr")] {
        assert!(output::is_release_not_found(said));
    }
    assert!(!output::is_release_not_found("Error: kubernetes cluster unreachable: Get \"https://a\""));
}

#[test]
fn trailing_newline_is_not_a_difference() {
    let (got, rendered) = (sample!("helm4-manifest.yaml"), sample!("helm4-manifest.yaml").trim_end());
    assert_ne!(got, rendered);
    let secrets = SecretStore::default();
    assert_eq!(diff_manifests(&parse_manifest(got).unwrap(), &parse_manifest(rendered).unwrap(), "s", &secrets), []);
}

#[test]
fn dry_run_contains_the_manifest_to_apply() {
    let secrets = SecretStore::default();
    for (said, manifest) in [
        (sample!("helm3-dryrun-server.json"), sample!("helm3-manifest.yaml")),
        (sample!("helm4-dryrun-server.json"), sample!("helm4-manifest.yaml")),
    ] {
        let rehearsed: HelmUpgradeDryRun = output::parse_json("upgrade", said).unwrap();
        let found = diff_manifests(
            &parse_manifest(manifest).unwrap(),
            &parse_manifest(&rehearsed.manifest).unwrap(),
            "s",
            &secrets,
        );
        let told: Vec<_> = found.iter().map(|change| (change.object.as_str(), fields(&change.what))).collect();
        assert!(told.iter().all(|(object, _)| *object == "Deployment tiny"), "{told:?}");
    }
}

fn fields(what: &ObjectChangeKind) -> Vec<&str> {
    match what {
        ObjectChangeKind::Changed(fields) => fields.iter().map(|field| field.path.as_str()).collect(),
        _ => Vec::new(),
    }
}

/// Creates a fake helm from a script, in a folder of its own.
pub(super) async fn fake_helm(script: &str) -> (tempfile::TempDir, HelmProgram) {
    let folder = tempfile::tempdir().unwrap();
    let program = Utf8PathBuf::from_path_buf(folder.path().join("helm")).unwrap();
    let head = "#!/bin/sh\n[ \"$1\" = version ] && { echo v4.1.4; exit; }\n";
    std::fs::write(&program, format!("{head}{}", script.replace("HERE", folder.path().to_str().unwrap()))).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let login = HelmTarget {
        kubeconfig: "/etc/kube".into(),
        context: "prod".into(),
        withheld: Default::default(),
        _made: None,
    };
    // A fork of another test may still have the program open for writing.
    for _ in 0..50 {
        match HelmProgram::open(&program, login.clone(), ChartAnswers::default()).await {
            Ok(helm) => return (folder, helm),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    panic!("no helm")
}

#[tokio::test]
async fn calls_name_the_cluster_and_warnings_stay_out_of_the_output() {
    let (_folder, helm) = fake_helm("echo WARNING: found symbolic link >&2\necho \"$@\"").await;
    let said = helm.run_query(&flags::list_args(4, false), None).await.unwrap();
    assert_eq!(said.stdout, "list --all-namespaces --max 0 --output json --kubeconfig /etc/kube --kube-context prod\n");
    assert!(said.ok);
}

#[tokio::test]
async fn last_error_is_reported_instead_of_warnings() {
    let script = format!("cat >&2 <<'END'\n{}level=WARN msg=late\nEND\nexit 1", sample!("helm4-conflict.stderr"));
    let (_folder, helm) = fake_helm(&script).await;
    let said = helm.run_query(&flags::history_args("r", "n"), None).await.unwrap();
    assert!(!said.ok && said.error.starts_with("UPGRADE FAILED: conflict occurred"), "{}", said.error);
}

/// helm 3.19 prints the causes of a failed hook below the error.
#[tokio::test]
async fn causes_below_an_error_are_part_of_it() {
    let script = "printf 'W1124 22:31:07.1 warn.go:70] old\\nError: UPGRADE FAILED: pre-upgrade hooks failed: 2 errors \
                  occurred:\\n\\t* job r-hook failed: BackoffLimitExceeded\\n\\t* timed out waiting for the condition\\n\\n\
                  level=WARN msg=late\\n' >&2; exit 1";
    let (_folder, helm) = fake_helm(script).await;
    let said = helm.run_query(&flags::history_args("r", "n"), None).await.unwrap();
    assert_eq!(
        said.error,
        "UPGRADE FAILED: pre-upgrade hooks failed: 2 errors occurred: job r-hook failed: BackoffLimitExceeded; \
         timed out waiting for the condition"
    );
}

#[tokio::test]
async fn values_are_passed_through_an_unnamed_file_on_stdin() {
    let (folder, helm) = fake_helm("cat >HERE/stdin; echo \"$@\" >HERE/argv; readlink /proc/$$/fd/0 >HERE/file").await;
    let (name, namespace, chart) = ("r", "n", "/c");
    let upgrade = HelmUpgradeOptions { name, namespace, chart, timeout_s: 5, ..HelmUpgradeOptions::default() };
    let values = SecretString::from("{\"password\":\"hunter2\"}".to_owned());
    let limit = Duration::from_secs(20);
    let args = flags::upgrade_args(4, &upgrade);
    helm.run_change(&args, Some(&values), limit, &SecretStore::default()).await.unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("stdin"), "{\"password\":\"hunter2\"}");
    assert!(!read("argv").contains("hunter2") && read("argv").contains("--values -"));
    assert!(read("file").contains("(deleted)"), "{}", read("file"));
}

#[tokio::test]
async fn secrets_are_masked_in_helm_errors() {
    let (_folder, helm) = fake_helm("echo 'Error: bad value hunter2' >&2; exit 1").await;
    let mut secrets = SecretStore::default();
    secrets.insert("pw", SecretString::from("hunter2".to_owned()));
    let args =
        flags::uninstall_args(&HelmUpgradeOptions { name: "r", namespace: "n", ..HelmUpgradeOptions::default() });
    let said = helm.run_change(&args, None, Duration::from_secs(20), &secrets).await.unwrap();
    assert_eq!(said.error, "bad value (secret pw)");
}

#[tokio::test]
async fn helm_change_is_not_killed_at_the_timeout() {
    let (folder, helm) = fake_helm("sleep 2; echo late; echo warn >&2; touch HERE/done").await;
    let args =
        flags::uninstall_args(&HelmUpgradeOptions { name: "r", namespace: "n", ..HelmUpgradeOptions::default() });
    let error = helm.run_change(&args, None, Duration::from_millis(300), &SecretStore::default()).await.unwrap_err();
    assert_eq!(error.message, "`helm uninstall` is still running after 0 s");
    drop(helm);
    for _ in 0..100 {
        if folder.path().join("done").exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it was killed");
}

#[tokio::test]
async fn helm_runs_with_its_own_home_and_a_clean_environment() {
    let (_folder, helm) = fake_helm("env").await;
    let said = helm.run_query(&flags::list_args(4, false), None).await.unwrap();
    let own: Vec<&str> =
        said.stdout.lines().filter(|line| line.starts_with("HELM_") || line.starts_with("KUBE")).collect();
    let names: std::collections::BTreeSet<_> = own.iter().filter_map(|line| line.split('=').next()).collect();
    assert_eq!(Vec::from_iter(names), ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"]);
    assert!(own.iter().all(|line| line.contains("/forge-helm-")), "{own:?}");
}

#[tokio::test]
async fn endless_helm_output_is_an_error() {
    let (_folder, helm) = fake_helm("head -c 40000000 /dev/zero").await;
    let error: KubeError = helm.run_query(&flags::list_args(4, false), None).await.unwrap_err();
    assert_eq!(error.message, "helm printed more than 32 MB");
}

/// A run asks helm once about a chart and values, also over several connections.
#[tokio::test]
async fn answers_about_an_unchanged_chart_are_kept() {
    let (folder, helm) = fake_helm("echo \"$*\" >>HERE/asked; [ -e HERE/broken ] && exit 1; cat -").await;
    let chart = Utf8PathBuf::from_path_buf(folder.path().join("chart")).unwrap();
    std::fs::create_dir(&chart).unwrap();
    let template = flags::HelmTemplateOptions { name: "r", chart: chart.as_str(), ..Default::default() };
    let args = flags::template_args(&template);
    let ask = async |values: &str, turn: u32| {
        let (digest, values) = (ChartDigest::read(&chart), SecretString::from(values.to_owned()));
        helm.run_chart_query((&chart, digest.as_ref()), &args, Some(&values), turn).await.unwrap()
    };
    let count = || std::fs::read_to_string(folder.path().join("asked")).unwrap().lines().count();
    for _ in 0..2 {
        assert_eq!((ask("a", 0).await.stdout.as_str(), ask("b", 0).await.stdout.as_str()), ("a", "b"));
    }
    assert_eq!(count(), 2);
    // The second rendering shows whether a chart renders differently each time.
    ask("a", 1).await;
    ask("a", 1).await;
    assert_eq!(count(), 3);
    std::fs::write(chart.join("Chart.yaml"), "name: other").unwrap();
    ask("a", 0).await;
    ask("a", 0).await;
    assert_eq!(count(), 4);
    std::fs::write(folder.path().join("broken"), "").unwrap();
    assert!(!ask("c", 0).await.ok && !ask("c", 0).await.ok && ask("a", 0).await.ok);
    assert_eq!(count(), 6);
}
