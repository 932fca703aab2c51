//! Arguments of each call. Flags were renamed between helm 3 and 4; none of them contains a secret.

/// The label of releases that forge installed or took over.
pub(super) const MANAGED_LABEL: &str = "forge.release/managed";

/// Options of an install or an upgrade.
#[derive(Clone, Debug, Default)]
pub(super) struct HelmUpgradeOptions<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    /// A folder or a file on this machine.
    pub chart: &'a str,
    pub timeout_s: u64,
    /// Waits until everything is ready, and rolls back otherwise.
    pub wait: bool,
    pub hooks: bool,
    /// Takes over fields from other managers. Helm 4 only, with server-side apply.
    pub force_conflicts: bool,
}

fn to_owned_args(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

fn timeout_flag(seconds: u64) -> String {
    format!("--timeout={seconds}s")
}

/// Lists every release of every namespace, whatever its status. Helm 4 has no `--all`, and needs none.
pub(super) fn list_args(major: u32, ours: bool) -> Vec<String> {
    let mut args = to_owned_args(&["list", "--all-namespaces", "--max", "0", "--output", "json"]);
    args.extend((major == 3).then(|| "--all".to_owned()));
    args.extend(ours.then(|| format!("--selector={MANAGED_LABEL}=true")));
    args
}

/// Reads one of `metadata`, `values` and `manifest`. A manifest is printed as YAML.
pub(super) fn get_args(what: &str, name: &str, namespace: &str) -> Vec<String> {
    let mut args = to_owned_args(&["get", what, name, "--namespace", namespace]);
    args.extend(if what == "manifest" { to_owned_args(&[]) } else { to_owned_args(&["--output", "json"]) });
    args
}

pub(super) fn history_args(name: &str, namespace: &str) -> Vec<String> {
    to_owned_args(&["history", name, "--namespace", namespace, "--output", "json"])
}

/// Options of rendering: without them, helm assumes a server version of its own choice.
#[derive(Clone, Debug, Default)]
pub(super) struct HelmTemplateOptions<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub chart: &'a str,
    pub kube_version: &'a str,
    /// `apps/v1`, `apps/v1/Deployment` …
    pub apis: &'a [String],
    pub is_upgrade: bool,
    pub hooks: bool,
    /// Prints the files in the folders `crds` first: those of the chart and of its enabled subcharts.
    pub crds: bool,
}

pub(super) fn template_args(template: &HelmTemplateOptions<'_>) -> Vec<String> {
    let HelmTemplateOptions { name, namespace, chart, .. } = template;
    let mut args = to_owned_args(&["template", name, chart, "--namespace", namespace, "--values", "-"]);
    args.extend(to_owned_args(&["--kube-version", template.kube_version]));
    args.extend(template.apis.iter().map(|api| format!("--api-versions={api}")));
    args.extend(template.is_upgrade.then(|| "--is-upgrade".to_owned()));
    args.extend((!template.hooks).then(|| "--no-hooks".to_owned()));
    args.extend(template.crds.then(|| "--include-crds".to_owned()));
    args
}

/// An upgrade as a dry run: its output contains the manifest that the actual upgrade would apply.
pub(super) fn dry_run_args(upgrade: &HelmUpgradeOptions<'_>) -> Vec<String> {
    let HelmUpgradeOptions { name, namespace, chart, .. } = upgrade;
    let mut args = to_owned_args(&["upgrade", name, chart, "--namespace", namespace, "--values", "-"]);
    args.extend(to_owned_args(&["--dry-run=server", "--no-hooks", "--output", "json"]));
    args
}

/// An install or an upgrade.
pub(super) fn upgrade_args(major: u32, upgrade: &HelmUpgradeOptions<'_>) -> Vec<String> {
    let HelmUpgradeOptions { name, namespace, chart, .. } = upgrade;
    let mut args = to_owned_args(&["upgrade", "--install", name, chart, "--namespace", namespace, "--values", "-"]);
    args.extend([timeout_flag(upgrade.timeout_s), format!("--labels={MANAGED_LABEL}=true")]);
    if upgrade.wait {
        args.extend(match major {
            3 => to_owned_args(&["--wait", "--atomic"]),
            _ => to_owned_args(&["--wait=watcher", "--rollback-on-failure"]),
        });
    }
    args.extend((!upgrade.hooks).then(|| "--no-hooks".to_owned()));
    args.extend((upgrade.force_conflicts && major > 3).then(|| "--force-conflicts".to_owned()));
    args
}

/// Rolls back to a revision; by default to the previous one, after a killed helm left a pending one.
pub(super) fn rollback_args(major: u32, upgrade: &HelmUpgradeOptions<'_>, revision: Option<u64>) -> Vec<String> {
    let mut args = to_owned_args(&["rollback", upgrade.name]);
    args.extend(revision.map(|revision| revision.to_string()));
    args.extend(to_owned_args(&["--namespace", upgrade.namespace, "--no-hooks"]));
    args.push(timeout_flag(upgrade.timeout_s));
    args.extend((upgrade.force_conflicts && major > 3).then(|| "--force-conflicts".to_owned()));
    args
}

pub(super) fn uninstall_args(upgrade: &HelmUpgradeOptions<'_>) -> Vec<String> {
    let mut args = to_owned_args(&["uninstall", upgrade.name, "--namespace", upgrade.namespace, "--ignore-not-found"]);
    args.extend([timeout_flag(upgrade.timeout_s)]);
    args.extend(upgrade.wait.then(|| "--wait".to_owned()));
    args.extend((!upgrade.hooks).then(|| "--no-hooks".to_owned()));
    args
}

/// Shows the `Chart.yaml` of a chart.
pub(super) fn show_chart_args(chart: &str) -> Vec<String> {
    to_owned_args(&["show", "chart", chart])
}

/// Fetches a chart into a folder; `repository` is `None` for `oci://…`.
pub(super) fn pull_args(chart: &str, repository: Option<&str>, version: &str, folder: &str) -> Vec<String> {
    let mut args = to_owned_args(&["pull", chart, "--version", version, "--destination", folder]);
    args.extend(repository.map(|url| format!("--repo={url}")));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_options() -> HelmUpgradeOptions<'static> {
        let (name, namespace, chart) = ("r", "ns", "/c");
        HelmUpgradeOptions { name, namespace, chart, timeout_s: 60, wait: true, hooks: true, force_conflicts: true }
    }

    #[test]
    fn flags_match_the_helm_major_version() {
        let (three, four) =
            (upgrade_args(3, &sample_options()).join(" "), upgrade_args(4, &sample_options()).join(" "));
        let head = "upgrade --install r /c --namespace ns --values - --timeout=60s --labels=forge.release/managed=true";
        assert_eq!(three, format!("{head} --wait --atomic"));
        assert_eq!(four, format!("{head} --wait=watcher --rollback-on-failure --force-conflicts"));
        assert!(
            list_args(3, false).contains(&"--all".to_owned()) && !list_args(4, false).contains(&"--all".to_owned())
        );
        assert!(!rollback_args(3, &sample_options(), None).contains(&"--force-conflicts".to_owned()));
        assert!(rollback_args(4, &sample_options(), Some(2)).contains(&"--force-conflicts".to_owned()));
    }

    #[test]
    fn upgrade_without_wait_has_no_rollback_flag() {
        let plain = HelmUpgradeOptions { wait: false, hooks: false, force_conflicts: false, ..sample_options() };
        assert_eq!(upgrade_args(3, &plain), upgrade_args(4, &plain));
        assert!(upgrade_args(4, &plain).ends_with(&["--no-hooks".to_owned()]));
    }
}
