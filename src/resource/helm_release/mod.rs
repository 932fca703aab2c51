//! `helm_release`: a chart, installed in a cluster by the `helm` program.

mod judge;
mod tell;

use super::support::{bad_value, release_state};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::artifact::Sha256;
use crate::diag::{Code, Diag};
use crate::kube::{Deed, ReleaseCall, shipped_charts};
use crate::model::Value;
use crate::probe::{ChartAsked, ChartFrom, Observation, Probe, ReleaseAsked, Unknown};
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "helm_release",
    summary: "A chart, installed in a cluster by the `helm` program.",
    example: include_str!("../examples/helm_release.yaml"),
    doc: "\
Of scope `cluster`. The `helm` of the controller is used, Helm 3.16 or newer, or Helm 4; it gets a home of its own, and neither plugins
nor `HELM_*` variables reach it. Values go to it through stdin, never as arguments. The chart is `chart` in `repository`,
an `oci://` address, `path`, a folder or `.tgz` of the inventory's tree, or `built_in`, one that ships with forge. Charts that are
fetched are kept beside the inventory's other artifacts; with `--offline` only those are used.

**Compared** before anything is run, so that no change makes no revision and runs no hook: chart and `version`, the release's
own values, its manifest with the one that the chart renders for this server, and each live object with that manifest, by
a server-side dry run. A chart that renders otherwise each time, with `randAlphaNum` for example, is compared by values and
version alone, and that is said. Fields that somebody added by hand are found by the owners that the API
keeps: no upgrade removes those. Text that is secret, or was, is masked: values of `Secret` objects, of keys such as
`password` and `token`, and whatever holds a declared secret.

**A change** of chart, version, values or manifest is one `helm upgrade --install` with the declared hooks, which are named in the
plan. With `wait`, it ends when everything is ready, and else is rolled back. Fields of other owners that stand in its way are
named, and taken over (`--force-conflicts`; Helm 3 does so by itself). Definitions of custom resources that the chart's folder
`crds` has and the cluster lacks are made first; those that exist are left as they are, as Helm does.
**Live objects alone** that moved are put back through the API: no revision is made and no hook runs.

**A release that is `failed`** is repaired by an upgrade. **One that is pending** belongs to a helm that is at work, and blocks the step
until it is older than `stale_after`; then it is what a killed helm left, and is rolled back, or taken away if nothing was
ever deployed. **One that forge did not install** is left alone without `adopt: true`, unless it is as declared. So is a
cluster in which the same chart is installed elsewhere, without `beside: true`.

**Images** of the manifest and the hooks need a tag or digest other than `latest`.

**helm is never killed** by forge: its own limit, `timeout`, lies below that of the step, and Ctrl-C lets it end.

**Disruption** is D1, and D0 for a first install.

**Removal** uninstalls. Definitions of custom resources stay, and are named where the step names the chart: with them
would go every resource of theirs.",
    fields: FIELDS,
    build,
};

const FIELDS: &[Field] = &[
    Field::required("name", Type::Name, "Name of the release. Another name is another release."),
    Field::required("namespace", Type::Name, "Namespace of the release; it must exist, or an earlier step make it."),
    Field::optional(
        "chart",
        Type::Line,
        "Name of the chart in `repository`, or its `oci://…` address. This, `path` or `built_in` is needed unless the release is to be gone.",
    ),
    Field::optional("repository", Type::Line, "`https://…` of the chart's repository."),
    Field::optional(
        "path",
        Type::LocalPath,
        "A chart of the inventory's tree, a folder or a `.tgz`. Excludes `chart` and `repository`.",
    ),
    Field::optional(
        "built_in",
        Type::Line,
        "Name of a chart that ships with forge, with the version that ships. Excludes `chart`, `repository`, `path`, `version` and `sha256`.",
    ),
    Field::optional("version", Type::Version, "The exact version, as the chart itself says it. Needed with a chart."),
    Field::optional("sha256", Type::Line, "SHA-256 of the packed chart, 64 hex digits. Not for a folder."),
    Field::optional("values", Type::Map(&Type::Any), "The release's own values; secrets may stand in them."),
    Field::optional(
        "wait",
        Type::Bool,
        "Whether to wait until everything is ready, and roll back else. Default `true`.",
    ),
    Field::optional("hooks", Type::Bool, "Whether the chart's hooks run. Default `true`."),
    Field::optional("timeout", Type::Duration, "How long helm waits, for hooks too. Default `10m`."),
    Field::optional(
        "stale_after",
        Type::Wait,
        "Age from which a pending release is what a killed helm left. Default `15m`.",
    ),
    Field::optional(
        "adopt",
        Type::Bool,
        "Whether a release that forge did not install is taken over. Default `false`.",
    ),
    Field::optional(
        "beside",
        Type::Bool,
        "Whether others may have the same chart installed elsewhere. Default `false`.",
    ),
    Field::optional(
        "majors",
        Type::Int { min: 0, max: 99 },
        "How many major releases an upgrade may go up, and that it may not go down: `1` takes `v24.9.1` to `v25.3.4`, but not to `v26.3.3`. Without it every version may follow every other.",
    ),
];

const TIMEOUT_S: u64 = 600;
const STALE_S: u64 = 900;
/// Seconds that a step takes beside helm's own limit: looking, rolling back first, and mending.
const BESIDE_S: u64 = 300;

#[derive(Debug)]
struct HelmRelease {
    asked: ReleaseAsked,
    wait: bool,
    hooks: bool,
    timeout_s: u64,
    stale_s: u64,
    adopt: bool,
    beside: bool,
    majors: Option<i64>,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let [name, namespace] = ["name", "namespace"].map(|key| fields.text(key).unwrap_or_default().to_owned());
    check_name("name", &name, 53)?;
    check_name("namespace", &namespace, 63)?;
    let chart = chart(fields)?;
    if chart.is_none() && !absent {
        return Err(Diag::error(Code::MissingKey, "a release needs `chart`, `path` or `built_in`"));
    }
    let values = fields.0.get("values").cloned().unwrap_or_else(|| json!({})).to_string();
    let seconds = |key, default| fields.int(key).and_then(|value| u64::try_from(value).ok()).unwrap_or(default);
    let flag = |key, default| fields.bool(key).unwrap_or(default);
    Ok(Box::new(HelmRelease {
        asked: ReleaseAsked { name, namespace, chart, values },
        wait: flag("wait", true),
        hooks: flag("hooks", true),
        timeout_s: seconds("timeout", TIMEOUT_S),
        stale_s: seconds("stale_after", STALE_S),
        adopt: flag("adopt", false),
        beside: flag("beside", false),
        majors: fields.int("majors"),
        absent,
    }))
}

/// A label of a DNS name: what helm and the API take.
fn check_name(field: &str, name: &str, most: usize) -> Result<(), Diag> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let good = name.bytes().all(|byte| inner(byte) || byte == b'-') && !name.starts_with('-') && !name.ends_with('-');
    match good && !name.is_empty() && name.len() <= most {
        true => Ok(()),
        false => {
            Err(bad_value(format!("`{field}` is `{name}`: it has small letters, digits and dashes, at most {most}")))
        }
    }
}

fn chart(fields: &Fields) -> Result<Option<ChartAsked>, Diag> {
    if let Some(name) = fields.text("built_in") {
        return built_in(fields, name).map(Some);
    }
    let Some(from) = from(fields)? else { return Ok(None) };
    let version = fields.text("version").ok_or_else(|| {
        Diag::error(Code::MissingKey, "a chart needs its exact `version`").hint("`helm show chart` tells it")
    })?;
    let sha256 = fields.text("sha256").map(|text| {
        Sha256::parse(text).ok_or_else(|| bad_value("`sha256` is not 64 hexadecimal digits").about("sha256"))
    });
    let sha256 = sha256.transpose()?.map(|sha256| sha256.as_str().to_owned());
    Ok(Some(ChartAsked { from, version: version.to_owned(), sha256 }))
}

/// A chart that ships is one version, and its bytes are those of the program.
fn built_in(fields: &Fields, name: &str) -> Result<ChartAsked, Diag> {
    if ["chart", "repository", "path", "version", "sha256"].iter().any(|key| fields.text(key).is_some()) {
        let message = "`built_in` excludes `chart`, `repository`, `path`, `version` and `sha256`";
        return Err(Diag::error(Code::Exclusive, message));
    }
    let chart = shipped_charts().iter().find(|chart| chart.name == name).ok_or_else(|| {
        bad_value(format!("no chart `{name}` ships with forge"))
            .suggest(name, shipped_charts().iter().map(|chart| chart.name))
    })?;
    Ok(ChartAsked { from: ChartFrom::BuiltIn(name.to_owned()), version: chart.version.to_owned(), sha256: None })
}

fn from(fields: &Fields) -> Result<Option<ChartFrom>, Diag> {
    let repository = fields.text("repository").map(str::to_owned);
    match (fields.text("chart"), fields.text("path"), repository) {
        (None, None, None) => Ok(None),
        (None, Some(path), None) => Ok(Some(ChartFrom::Path(path.to_owned()))),
        (Some(chart), None, None) if chart.starts_with("oci://") => Ok(Some(ChartFrom::Oci(chart.to_owned()))),
        (Some(name), None, Some(url)) => repository_of(name, url).map(Some),
        (Some(_), None, None) => Err(Diag::error(Code::MissingKey, "`chart` needs its `repository`")
            .hint("an address begins with `oci://`; a chart of the inventory's tree is `path`")),
        (None, None, Some(_)) => Err(Diag::error(Code::MissingKey, "`repository` needs `chart`")),
        (_, Some(_), _) => Err(Diag::error(Code::Exclusive, "`path` excludes `chart` and `repository`")),
    }
}

fn repository_of(name: &str, url: String) -> Result<ChartFrom, Diag> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if !plain || name.is_empty() || name.starts_with('-') {
        return Err(bad_value(format!("`{name}` is no name of a chart")));
    }
    match url.starts_with("https://") || url.starts_with("http://") {
        true => Ok(ChartFrom::Repository { url, name: name.to_owned() }),
        false => Err(bad_value("`repository` is no `https://…`")),
    }
}

impl HelmRelease {
    fn probe(&self) -> Probe {
        Probe::Release(Box::new(self.asked.clone()))
    }

    fn judged(&self, seen: &Observation) -> Result<Judgement, Unknown> {
        let state = release_state(seen, &self.probe())?;
        Ok(match self.absent {
            true => judge::absent(self, state),
            false => judge::present(self, state),
        })
    }

    fn call(&self, deed: Deed) -> crate::kube::Call {
        crate::kube::Call::Release(Box::new(ReleaseCall {
            asked: self.asked.clone(),
            deed,
            timeout_s: self.timeout_s,
            wait: self.wait,
            hooks: self.hooks,
            stale_s: self.stale_s,
        }))
    }

    /// Returns what people call it: `gpu-operator/gpu-operator`.
    fn title(&self) -> String {
        format!("{}/{}", self.asked.namespace, self.asked.name)
    }
}

impl Resource for HelmRelease {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        HelmRelease::title(self)
    }

    fn probes(&self) -> Vec<Probe> {
        vec![self.probe()]
    }

    fn judge(&self, seen: &Observation, _cx: &Context<'_>) -> Judgement {
        self.judged(seen).unwrap_or_else(|unknown| Judgement::unknown(&unknown))
    }

    fn act(&self, _judgement: &Judgement, _cx: &Context<'_>) -> Action {
        Action::default()
    }

    fn limit_s(&self) -> Option<u64> {
        Some(2 * self.timeout_s + BESIDE_S)
    }

    fn desired(&self) -> Value {
        let values: Value = serde_json::from_str(&self.asked.values).unwrap_or_default();
        json!({
            "name": self.asked.name, "namespace": self.asked.namespace, "absent": self.absent,
            "version": self.asked.chart.as_ref().map(|chart| &chart.version), "values": values,
        })
    }

    fn provides(&self) -> Vec<Provision> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
