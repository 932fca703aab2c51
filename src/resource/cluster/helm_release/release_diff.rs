//! How a release differs from its declaration, and how a plan shows it.

use crate::model::UntrustedText;
use crate::object::{
    ChartHook, DoomedDefinition, FieldChange, FieldOwner, LiveObject, ObjectChange, ObjectChangeKind, ReleaseAction,
    ReleaseFieldConflict, ReleaseStatus,
};
use crate::resource::{AttributeChange, ResourceDiff, ValueChange};
use serde::Serialize;

/// Number of objects from which on their equal changes are one line: a new version of a chart changes its name in the
/// labels of all objects.
const SHARED_BY: usize = 3;
/// Maximum number of manifest fields in a plan; a new version of a large chart changes hundreds.
const MAX_SHOWN_FIELDS: usize = 60;

/// How a release differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum ReleaseDiff {
    Install(InstallDiff),
    Upgrade(Box<UpgradeDiff>),
    /// Only live objects differ from the release.
    Repair {
        live: Vec<LiveObject>,
    },
    Uninstall {
        chart: String,
        version: String,
        /// CustomResourceDefinitions that are deleted with their objects.
        doomed: Vec<DoomedDefinition>,
        /// Hooks that run, with the events that make them run.
        hooks: Vec<ChartHook>,
    },
}

/// A release that does not exist.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct InstallDiff {
    /// The last revision of an uninstalled release whose history was kept; 0 if there is none.
    pub revision: u64,
    pub chart: String,
    pub version: String,
    /// CustomResourceDefinitions that are created, by name.
    pub crds: Vec<String>,
    /// CustomResourceDefinitions that exist and become part of the release, by name.
    pub adopted: Vec<String>,
    /// Hooks that run, with the events that make them run.
    pub hooks: Vec<ChartHook>,
}

/// A release that differs from its declaration.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct UpgradeDiff {
    /// The installed revision.
    pub revision: u64,
    pub chart: Option<ValueChange<String>>,
    pub version: Option<ValueChange<String>>,
    pub status: Option<ValueChange<ReleaseStatus>>,
    pub values: Vec<FieldChange>,
    pub manifest: Vec<ObjectChange>,
    /// CustomResourceDefinitions that are created, by name.
    pub crds: Vec<String>,
    /// CustomResourceDefinitions of another version of the chart, which are renewed first, by name.
    pub renewed_crds: Vec<String>,
    pub live: Vec<LiveObject>,
    /// Fields that are taken over from other owners.
    pub conflicts: Vec<ReleaseFieldConflict>,
    /// CustomResourceDefinitions that exist and become part of the release, by name.
    pub adopted: Vec<String>,
    /// CustomResourceDefinitions that are deleted with their objects.
    pub doomed: Vec<DoomedDefinition>,
    /// Hooks that run, with the events that make them run.
    pub hooks: Vec<ChartHook>,
}

impl ReleaseDiff {
    /// Returns the action that makes the release match.
    pub fn action(&self) -> ReleaseAction {
        match self {
            // Fields of a CRD that is taken over have other owners.
            Self::Install(install) => ReleaseAction::Upgrade { force: !install.adopted.is_empty() },
            Self::Upgrade(upgrade) => ReleaseAction::Upgrade { force: !upgrade.conflicts.is_empty() },
            Self::Repair { .. } => ReleaseAction::Repair,
            Self::Uninstall { .. } => ReleaseAction::Uninstall,
        }
    }

    fn list_changes(&self) -> Vec<ReleaseChange> {
        match self {
            Self::Install(install) => install.list_changes(),
            Self::Upgrade(upgrade) => upgrade.list_changes(),
            Self::Repair { live } => live.iter().flat_map(live_changes).collect(),
            Self::Uninstall { chart, version, doomed, hooks } => {
                let release = ReleaseChange::new(ChangeSubject::Release, Some(&format!("{chart} {version}")), None);
                let release = std::iter::once(release).chain(doomed.iter().map(doomed_change));
                release.chain(hooks_change(hooks)).collect()
            }
        }
    }
}

impl ResourceDiff for ReleaseDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        self.list_changes().into_iter().map(ReleaseChange::render).collect()
    }
}

impl InstallDiff {
    fn list_changes(&self) -> Vec<ReleaseChange> {
        let release = format!("{} {}", self.chart, self.version);
        let mut changes = vec![ReleaseChange::new(ChangeSubject::Release, None, Some(&release))];
        changes.extend(self.crds.iter().map(|crd| crd_change(crd)));
        changes.extend(self.adopted.iter().map(|crd| adopted_change(crd)));
        changes.extend(hooks_change(&self.hooks));
        changes
    }
}

impl UpgradeDiff {
    /// Reports whether the release itself matches, whatever its live objects are.
    pub fn matches_declaration(&self) -> bool {
        self.chart.is_none()
            && self.version.is_none()
            && self.status.is_none()
            && self.values.is_empty()
            && self.manifest.is_empty()
            && self.crds.is_empty()
            && self.renewed_crds.is_empty()
    }

    fn list_changes(&self) -> Vec<ReleaseChange> {
        let text = |change: &Option<ValueChange<String>>, subject| {
            let change = change.as_ref()?;
            Some(ReleaseChange::new(subject, change.from.as_deref(), change.to.as_deref()))
        };
        let status = self.status.as_ref().map(|change| {
            let name = |status: Option<ReleaseStatus>| status.map(ReleaseStatus::name);
            ReleaseChange::new(ChangeSubject::Status, name(change.from), name(change.to))
        });
        let mut changes: Vec<ReleaseChange> = text(&self.chart, ChangeSubject::Chart)
            .into_iter()
            .chain(text(&self.version, ChangeSubject::Version))
            .collect();
        changes.extend(status);
        let values = self.values.iter().map(|field| field_change(ChangeSubject::Value(field.path.clone()), field));
        changes.extend(values);
        changes.extend(self.adopted.iter().map(|crd| adopted_change(crd)));
        changes.extend(self.doomed.iter().map(doomed_change));
        changes.extend(self.manifest_changes());
        changes.extend(self.crds.iter().map(|crd| crd_change(crd)));
        changes.extend(self.renewed_crds.iter().map(|crd| renewed_crd_change(crd)));
        self.live.iter().flat_map(live_changes).for_each(|moved| merge_change(&mut changes, moved));
        changes.extend(hooks_change(&self.hooks));
        changes
    }

    /// Reports whether a change of the manifest is that of a CRD that is taken over or deleted.
    fn is_definition_change(&self, change: &ObjectChange) -> bool {
        let names = self.adopted.iter().chain(self.doomed.iter().map(|crd| &crd.name));
        !matches!(change.what, ObjectChangeKind::Changed(_))
            && names.into_iter().any(|name| change.object == crd_title(name))
    }

    fn manifest_changes(&self) -> Vec<ReleaseChange> {
        let told = |change: &&ObjectChange| !self.is_definition_change(change);
        let mut changes = fold_shared_fields(self.manifest.iter().filter(told).flat_map(object_changes).collect());
        let more = changes.len().saturating_sub(MAX_SHOWN_FIELDS);
        changes.truncate(MAX_SHOWN_FIELDS);
        if more > 0 {
            changes.push(ReleaseChange::new(ChangeSubject::Rest, None, Some(&format!("{more} more fields change"))));
        }
        changes
    }
}

/// What a change is about.
#[derive(Clone, Debug, PartialEq)]
enum ChangeSubject {
    Release,
    Chart,
    Version,
    Status,
    /// A field of the values.
    Value(String),
    /// A whole object, by its title.
    Object(String),
    Field {
        object: String,
        path: String,
    },
    /// A field that changes alike in several objects.
    SharedField {
        objects: usize,
        path: String,
    },
    /// The fields of the manifest that are not shown.
    Rest,
    Hooks,
}

/// One change of a plan.
struct ReleaseChange {
    subject: ChangeSubject,
    from: Option<UntrustedText>,
    to: Option<UntrustedText>,
    secret: bool,
}

impl ReleaseChange {
    fn new(subject: ChangeSubject, from: Option<&str>, to: Option<&str>) -> Self {
        Self { subject, from: from.map(UntrustedText::from), to: to.map(UntrustedText::from), secret: false }
    }

    /// Reports whether both change the same field of their objects in the same way. Secret values are never compared.
    fn is_alike(&self, other: &Self) -> bool {
        let (ChangeSubject::Field { path, .. }, ChangeSubject::Field { path: other_path, .. }) =
            (&self.subject, &other.subject)
        else {
            return false;
        };
        path == other_path && !self.secret && !other.secret && (&self.from, &self.to) == (&other.from, &other.to)
    }

    fn render(self) -> AttributeChange {
        let whole = matches!(self.subject, ChangeSubject::Object(_));
        let attribute = match self.subject {
            ChangeSubject::Release => "release".to_owned(),
            ChangeSubject::Chart => "chart".to_owned(),
            ChangeSubject::Version => "version".to_owned(),
            ChangeSubject::Status => "status".to_owned(),
            ChangeSubject::Value(path) => format!("values.{path}"),
            ChangeSubject::Object(title) => title,
            ChangeSubject::Field { object, path } => format!("{object} {path}"),
            ChangeSubject::SharedField { objects, path } => format!("{path} of {objects} objects"),
            ChangeSubject::Rest => "manifest".to_owned(),
            ChangeSubject::Hooks => "hooks".to_owned(),
        };
        let change = AttributeChange::new(&attribute, None, None);
        AttributeChange { from: self.from, to: self.to, secret: self.secret, whole, ..change }
    }
}

/// Makes one change of those that several objects share, at the place of the first.
fn fold_shared_fields(changes: Vec<ReleaseChange>) -> Vec<ReleaseChange> {
    let count_alike = |change: &ReleaseChange| changes.iter().filter(|other| change.is_alike(other)).count();
    let counts: Vec<usize> = changes.iter().map(count_alike).collect();
    let mut folded: Vec<ReleaseChange> = Vec::new();
    for (change, objects) in changes.into_iter().zip(counts) {
        let ChangeSubject::Field { path, .. } = &change.subject else {
            folded.push(change);
            continue;
        };
        if objects < SHARED_BY {
            folded.push(change);
            continue;
        }
        let subject = ChangeSubject::SharedField { objects, path: path.clone() };
        let is_new = !folded
            .iter()
            .any(|other| other.subject == subject && (&other.from, &other.to) == (&change.from, &change.to));
        if is_new {
            folded.push(ReleaseChange { subject, ..change });
        }
    }
    folded
}

/// Adds the drift of a live object to the changes of an upgrade. A field in both goes from the live to the declared
/// value, and is secret if either is.
fn merge_change(declared: &mut Vec<ReleaseChange>, moved: ReleaseChange) {
    match declared.iter_mut().find(|change| change.subject == moved.subject) {
        Some(change) if change.secret || moved.secret => {
            (change.from, change.to, change.secret) = (None, None, true);
        }
        Some(change) => change.from = moved.from,
        None => declared.push(moved),
    }
}

fn object_changes(change_of: &ObjectChange) -> Vec<ReleaseChange> {
    let title = || ChangeSubject::Object(change_of.object.clone());
    match &change_of.what {
        ObjectChangeKind::Added => vec![ReleaseChange::new(title(), None, Some("new"))],
        ObjectChangeKind::Removed => vec![ReleaseChange::new(title(), Some("in the release"), None)],
        ObjectChangeKind::Changed(fields) => {
            fields.iter().map(|field| field_change(object_field(&change_of.object, field), field)).collect()
        }
    }
}

/// Returns the differences between a live object and the release.
fn live_changes(live: &LiveObject) -> Vec<ReleaseChange> {
    let missing =
        live.missing.then(|| ReleaseChange::new(ChangeSubject::Object(live.object.clone()), None, Some("present")));
    let owned = |field: &FieldChange, how: &str| {
        let change = field_change(object_field(&live.object, field), field);
        ReleaseChange { from: describe_owned_value(field, how), ..change }
    };
    let changed = live.changed.iter().map(|field| owned(field, "set"));
    let added = live.added.iter().map(|field| owned(field, "added"));
    missing.into_iter().chain(changed).chain(added).collect()
}

fn object_field(object: &str, field: &FieldChange) -> ChangeSubject {
    ChangeSubject::Field { object: object.to_owned(), path: field.path.clone() }
}

fn field_change(subject: ChangeSubject, field: &FieldChange) -> ReleaseChange {
    ReleaseChange { subject, from: field.from.clone(), to: field.to.clone(), secret: field.secret }
}

fn crd_title(name: &str) -> String {
    format!("CustomResourceDefinition {name}")
}

fn crd_change(name: &str) -> ReleaseChange {
    ReleaseChange::new(ChangeSubject::Object(crd_title(name)), None, Some("new"))
}

fn adopted_change(name: &str) -> ReleaseChange {
    let subject = ChangeSubject::Object(crd_title(name));
    ReleaseChange::new(subject, Some("without a release"), Some("part of the release"))
}

/// The change of a CRD that is deleted: its objects are lost.
fn doomed_change(crd: &DoomedDefinition) -> ReleaseChange {
    let lost = match crd.objects {
        0 => "without objects".to_owned(),
        1 => "with 1 object, which is lost".to_owned(),
        more => format!("with {more} objects, which are lost"),
    };
    ReleaseChange::new(ChangeSubject::Object(crd_title(&crd.name)), Some(&lost), None)
}

fn renewed_crd_change(name: &str) -> ReleaseChange {
    let subject = ChangeSubject::Object(format!("CustomResourceDefinition {name}"));
    ReleaseChange::new(subject, Some("of another version of the chart"), Some("renewed"))
}

fn hooks_change(hooks: &[ChartHook]) -> Option<ReleaseChange> {
    let names: Vec<String> = hooks.iter().map(|hook| format!("{} ({})", hook.object, hook.events.join(", "))).collect();
    (!names.is_empty()).then(|| ReleaseChange::new(ChangeSubject::Hooks, None, Some(&names.join(", "))))
}

/// Returns the observed value with its owner.
fn describe_owned_value(field: &FieldChange, how: &str) -> Option<UntrustedText> {
    let from = field.from.clone()?;
    Some(match &field.by {
        Some(owner) => format!("{} ({how} by {})", from.raw(), describe_owner(owner)).into(),
        None => from,
    })
}

fn describe_owner(owner: &FieldOwner) -> String {
    match &owner.time {
        Some(time) => format!("{} at {time}", owner.name.raw()),
        None => owner.name.raw().to_owned(),
    }
}
