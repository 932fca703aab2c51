//! `helm_release`: a Helm chart installed in a cluster.

mod assessment;
mod declaration;
mod release_changes;
mod release_diff;
pub(in crate::resource) mod restore;
mod undo;

use crate::diag::{Diag, DiagCode};
use crate::model::{Sha256Digest, UndoEffect, Value};
use crate::object::{ChartQuery, ChartQuerySource, ClusterCall, ReleaseQuery};
use crate::object::{ReleaseAction, ReleaseCall, list_builtin_charts};
use crate::probe::{Observation, Probe, UnansweredReason};
use crate::resource::shared::support::{bad_value, release_state};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource,
    ResourceKind, TypedResource,
};
use declaration::HelmReleaseResource;
use release_diff::ReleaseDiff;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "helm_release",
    summary: "A Helm chart installed in a cluster.",
    example: include_str!("../../examples/helm_release.yaml"),
    doc: "\
A kind of scope `cluster`. forge runs the controller's `helm`, Helm 3.16 or newer, or Helm 4, with a home directory of
its own; plugins and `HELM_*` variables have no effect. Values are passed through stdin, never as arguments. The chart
is `chart` in `repository`, an `oci://` address, `path` (a directory or `.tgz` in the inventory's tree), or `built_in`
(a chart that ships with forge). Downloaded charts are cached with the inventory's other artifacts; with `--offline`
forge uses only the cache.

**Compares** before it runs anything, so that an unchanged release gets no new revision and runs no hooks: chart and
`version`, the release's values, its manifest with the manifest that the chart renders for this server, and each live
object with that manifest, by a server-side dry run. A chart that renders differently each time, for example with
`randAlphaNum`, is compared by values and version only, and the step reports this. Fields that another user added are
detected through the API's managed fields; an upgrade does not remove those. Secret text is masked: values of `Secret`
objects, of keys and environment variables with names such as `password` and `token`, and everything that contains a
declared secret.

**A change** of chart, version, values or manifest is one `helm upgrade --install` with the declared hooks, which the
plan lists. With `wait` it succeeds when everything is ready, and is rolled back otherwise. Conflicting fields of other
owners are listed and taken over (`--force-conflicts`; Helm 3 does so by default). Before it, forge creates the
CustomResourceDefinitions in the chart's `crds` directory that are missing, and renews those of another version of the
chart, which Helm leaves to hooks or to you. The plan lists both.
**Drift of live objects alone** is repaired through the API, without a new revision or hooks.

**A `failed` release** is repaired by an upgrade. **A pending release** belongs to a running Helm process and blocks the
step until it is older than `stale_after`. After that forge treats it as left by a killed process, and rolls it back, or
removes it if nothing was ever deployed. **A release that forge did not install** blocks the step without `adopt: true`,
unless it matches. A cluster in which the same chart is installed elsewhere blocks the step without `beside: true`.

**Images** of the manifest and the hooks need a digest, or a tag other than `latest`.

**Helm is never killed** by forge: its own limit, `timeout`, is below that of the step, and Ctrl-C waits until it exits.

**Disruption** is D1, or D0 for a first install. A change of a field in `disruptive_fields` is D2: it disturbs pods on
nodes, for example because an operator then reloads a kernel module. The reason names the field and its consequence.
`--max-disruption D1` holds such a change back; there is no window, because the operator chooses the nodes.

**CustomResourceDefinitions** in the chart's `crds` directory stay when the release is removed, because removing them
would delete all their resources; they are listed if the step declares the chart. Those in the chart's *templates* are
ordinary objects of the release, which Helm deletes with all their resources: on removal, and by an upgrade to a version
that no longer has them. Such a step is blocked without `definitions: delete`; the reason counts the resources. If they
exist and no release owns them, because an earlier version of the chart had them in `crds`, Helm rejects the upgrade:
`adopt: true` takes them over.

**Removal** uninstalls the release. Objects that the chart annotates with `helm.sh/resource-policy: keep` stay, and are
listed.",
    fields: FIELDS,
    build,
    traits: KindTraits { downloads: true, ..KindTraits::IN_CLUSTER },
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("name", FieldType::Name, "Release name. Changing it creates another release."),
    FieldSpec::required(
        "namespace",
        FieldType::Name,
        "Namespace of the release. Must exist or be created by an earlier step.",
    ),
    FieldSpec::optional(
        "chart",
        FieldType::Line,
        "Chart name in `repository`, or an `oci://…` address. A release needs `chart`, `path` or `built_in`.",
    ),
    FieldSpec::optional("repository", FieldType::Line, "`https://…` URL of the chart repository."),
    FieldSpec::optional(
        "path",
        FieldType::LocalPath,
        "Chart directory or `.tgz` in the inventory's tree. Excludes `chart` and `repository`.",
    ),
    FieldSpec::optional(
        "built_in",
        FieldType::Line,
        "Name of a chart that ships with forge. Excludes `chart`, `repository`, `path`, `version` and `sha256`.",
    ),
    FieldSpec::optional(
        "version",
        FieldType::Version,
        "Exact version as in `Chart.yaml`. Required with `chart` and `path`.",
    ),
    FieldSpec::optional(
        "sha256",
        FieldType::Line,
        "SHA-256 of the packaged chart, 64 hex digits. Not for a directory.",
    ),
    FieldSpec::optional("values", FieldType::Map(&FieldType::Any), "Values of the release. May contain secrets."),
    FieldSpec::optional(
        "mirror_values",
        FieldType::Map(&FieldType::Any),
        "Values with the registries of a mirror, merged over `values`. The images of the chart without them are the \
         mirror's sources, for `forge plan --images`.",
    ),
    FieldSpec::optional(
        "images",
        FieldType::Map(&FieldType::Line),
        "Images that a program of the chart runs and that the chart does not contain, each with its source in a mirror, \
         or the same name without one, for `forge plan --images`.",
    ),
    FieldSpec::optional(
        "wait",
        FieldType::Bool,
        "An install or an upgrade waits until everything is ready, and rolls back otherwise. Readiness is not compared \
         afterwards. Default `true`.",
    ),
    FieldSpec::optional("hooks", FieldType::Bool, "Run the chart's hooks. Default `true`."),
    FieldSpec::optional("timeout", FieldType::Duration, "Timeout of Helm, including hooks. Default `10m`."),
    FieldSpec::optional(
        "stale_after",
        FieldType::Wait,
        "Age after which a pending release counts as left by a killed Helm process. Default `15m`.",
    ),
    FieldSpec::optional(
        "adopt",
        FieldType::Bool,
        "Take over a release that forge did not install, and CustomResourceDefinitions of the chart's templates that no \
         release owns. Default `false`.",
    ),
    FieldSpec::optional(
        "definitions",
        FieldType::Enum(&["keep", "delete"]),
        "Whether CustomResourceDefinitions of the chart's templates may be deleted with all their objects. Default \
         `keep`: a step that would delete them is blocked.",
    ),
    FieldSpec::optional(
        "beside",
        FieldType::Bool,
        "Allow other releases of the same chart in the cluster. Default `false`.",
    ),
    FieldSpec::optional(
        "disruptive_fields",
        FieldType::Map(&FieldType::Line),
        "Fields of the chart's objects whose change, or that of a field below them, disturbs pods on nodes, each with \
         its consequence: `{ spec.driver: the operator reloads the driver }`.",
    ),
    FieldSpec::optional(
        "majors",
        FieldType::Int { min: 0, max: 99 },
        "Maximum number of major versions per upgrade; downgrades by a major version are blocked. `1` allows \
         `v24.9.1` to `v25.3.4`, but not to `v26.3.3`. Default: no limit.",
    ),
];

const TIMEOUT_S: u64 = 600;
const STALE_S: u64 = 900;
/// Seconds that a step may take in addition to Helm's timeout: observation, a rollback first, and repairs.
const EXTRA_TIME_S: u64 = 300;

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let [name, namespace] = ["name", "namespace"].map(|key| fields.get_text(key).unwrap_or_default().to_owned());
    check_name("name", &name, 53)?;
    check_name("namespace", &namespace, 63)?;
    let chart = parse_chart(fields)?;
    if chart.is_none() && !absent {
        return Err(Diag::error(DiagCode::MissingKey, "a release needs `chart`, `path` or `built_in`"));
    }
    let values = fields.0.get("values").cloned().unwrap_or_else(|| json!({}));
    let mirror = fields.0.get("mirror_values").filter(|mirror| mirror.as_object().is_some_and(|map| !map.is_empty()));
    let upstream = mirror.map(|_| values.to_string());
    let values = mirror.map_or_else(|| values.clone(), |mirror| merge_values(values.clone(), mirror)).to_string();
    let seconds = |key, default| fields.get_int(key).and_then(|value| u64::try_from(value).ok()).unwrap_or(default);
    let flag = |key, default| fields.get_bool(key).unwrap_or(default);
    Ok(Box::new(HelmReleaseResource {
        asked: ReleaseQuery { name, namespace, chart, values, upstream, absent, revision: None },
        images: fields.get_text_map("images").unwrap_or_default(),
        wait: flag("wait", true),
        hooks: flag("hooks", true),
        timeout_s: seconds("timeout", TIMEOUT_S),
        stale_s: seconds("stale_after", STALE_S),
        adopt: flag("adopt", false),
        beside: flag("beside", false),
        disruptive_fields: fields.get_text_map("disruptive_fields").unwrap_or_default(),
        majors: fields.get_int("majors"),
        delete_definitions: fields.get_text("definitions") == Some("delete"),
    }))
}

/// Merges values, as helm merges several files of values: maps key by key, everything else as a whole.
fn merge_values(mut under: Value, over: &Value) -> Value {
    match (under.as_object_mut(), over.as_object()) {
        (Some(map), Some(more)) => {
            for (key, value) in more {
                let old = map.get(key).cloned().unwrap_or_default();
                map.insert(key.clone(), merge_values(old, value));
            }
            under
        }
        _ => over.clone(),
    }
}

/// Checks for a DNS label, as Helm and the API require.
fn check_name(field: &'static str, name: &str, most: usize) -> Result<(), Diag> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let good = name.bytes().all(|byte| inner(byte) || byte == b'-') && !name.starts_with('-') && !name.ends_with('-');
    match good && !name.is_empty() && name.len() <= most {
        true => Ok(()),
        false => Err(bad_value(format!("`{name}` is not a valid `{field}`"))
            .with_field(field)
            .hint(format!("use lowercase letters, digits and dashes, at most {most} characters"))),
    }
}

fn parse_chart(fields: &FieldValues) -> Result<Option<ChartQuery>, Diag> {
    if let Some(name) = fields.get_text("built_in") {
        return parse_built_in_chart(fields, name).map(Some);
    }
    let Some(from) = parse_chart_source(fields)? else { return Ok(None) };
    let version = fields.get_text("version").ok_or_else(|| {
        Diag::error(DiagCode::MissingKey, "a chart needs its exact `version`").hint("run `helm show chart` to find it")
    })?;
    let sha256 = fields.get_text("sha256").map(|text| {
        Sha256Digest::parse(text).ok_or_else(|| bad_value("`sha256` is not 64 hexadecimal digits").with_field("sha256"))
    });
    let sha256 = sha256.transpose()?.map(|sha256| sha256.as_str().to_owned());
    Ok(Some(ChartQuery { from, version: version.to_owned(), sha256 }))
}

/// Returns a chart that ships with forge, which has one version and a digest fixed by the binary.
fn parse_built_in_chart(fields: &FieldValues, name: &str) -> Result<ChartQuery, Diag> {
    if ["chart", "repository", "path", "version", "sha256"].iter().any(|key| fields.get_text(key).is_some()) {
        let message = "`built_in` excludes `chart`, `repository`, `path`, `version` and `sha256`";
        return Err(Diag::error(DiagCode::Exclusive, message));
    }
    let chart = list_builtin_charts().iter().find(|chart| chart.name == name).ok_or_else(|| {
        bad_value(format!("built-in chart `{name}` does not exist"))
            .with_field("built_in")
            .suggest_name(name, list_builtin_charts().iter().map(|chart| chart.name))
    })?;
    Ok(ChartQuery { from: ChartQuerySource::BuiltIn(name.to_owned()), version: chart.version.to_owned(), sha256: None })
}

fn parse_chart_source(fields: &FieldValues) -> Result<Option<ChartQuerySource>, Diag> {
    let repository = fields.get_text("repository").map(str::to_owned);
    match (fields.get_text("chart"), fields.get_text("path"), repository) {
        (None, None, None) => Ok(None),
        (None, Some(path), None) => Ok(Some(ChartQuerySource::Path(path.to_owned()))),
        (Some(chart), None, None) if chart.starts_with("oci://") => Ok(Some(ChartQuerySource::Oci(chart.to_owned()))),
        (Some(name), None, Some(url)) => parse_repository(name, url).map(Some),
        (Some(_), None, None) => Err(Diag::error(DiagCode::MissingKey, "`chart` needs `repository`")
            .hint("for an OCI chart use an `oci://` address, for a chart in the inventory's tree use `path`")),
        (None, None, Some(_)) => Err(Diag::error(DiagCode::MissingKey, "`repository` needs `chart`")),
        (_, Some(_), _) => Err(Diag::error(DiagCode::Exclusive, "`path` excludes `chart` and `repository`")),
    }
}

fn parse_repository(name: &str, url: String) -> Result<ChartQuerySource, Diag> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if !plain || name.is_empty() || name.starts_with('-') {
        return Err(bad_value(format!("`{name}` is not a valid chart name")).with_field("chart"));
    }
    match url.starts_with("https://") || url.starts_with("http://") {
        true => Ok(ChartQuerySource::Repository { url, name: name.to_owned() }),
        false => Err(bad_value("`repository` is not an `https://…` URL").with_field("repository")),
    }
}

impl HelmReleaseResource {
    fn try_assess(&self, seen: &Observation) -> Result<Assessment<ReleaseDiff>, UnansweredReason> {
        let state = release_state(seen, &self.probe())?;
        Ok(match self.asked.absent {
            true => assessment::assess_absent(self, state),
            false => assessment::assess_present(self, state),
        })
    }

    fn release_call(&self, deed: ReleaseAction) -> ClusterCall {
        ClusterCall::Release(Box::new(ReleaseCall {
            asked: self.asked.clone(),
            deed,
            timeout_s: self.timeout_s,
            wait: self.wait,
            hooks: self.hooks,
            stale_s: self.stale_s,
            adopt: self.adopt,
        }))
    }
}

impl DeclaredResource for HelmReleaseResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        HelmReleaseResource::qualified_name(self)
    }

    fn probes(&self) -> Vec<Probe> {
        vec![self.probe()]
    }

    fn time_limit_s(&self) -> Option<u64> {
        Some(2 * self.timeout_s + EXTRA_TIME_S)
    }

    fn desired_value(&self) -> Value {
        let values: Value = serde_json::from_str(&self.asked.values).unwrap_or_default();
        json!({
            "name": self.asked.name, "namespace": self.asked.namespace, "absent": self.asked.absent,
            "version": self.asked.chart.as_ref().map(|chart| &chart.version), "values": values,
        })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        Vec::new()
    }
}

impl TypedResource for HelmReleaseResource {
    type Diff = ReleaseDiff;

    fn diff(&self, seen: &Observation, _cx: &AssessmentContext<'_>) -> Assessment<ReleaseDiff> {
        self.try_assess(seen).unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn act(&self, diff: &ReleaseDiff, _cx: &AssessmentContext<'_>) -> Action {
        Action::Calls(vec![self.release_call(diff.action())])
    }

    fn undo(&self, diff: &ReleaseDiff) -> UndoEffect {
        undo::derive_undo(&self.asked, diff)
    }
}

#[cfg(test)]
mod tests;
