//! What earlier steps of a plan will have changed when a step runs.

use crate::model::StepId;
use crate::probe::Probe;
use std::collections::{BTreeMap, BTreeSet};

/// Something that exists once a step is applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProvidedItem {
    /// An absolute path.
    Path(String),
    /// A systemd unit.
    Unit(String),
    /// An account.
    User(String),
    /// A group.
    Group(String),
    /// An installed package.
    Package(String),
    /// An object of the cluster's API, as named in records: `core/Namespace//web`.
    Object(String),
    /// A kind that the cluster's API starts to serve: `nvidia.com/ClusterPolicy`.
    Served(String),
    /// The cluster whose API the inventory names.
    Cluster,
}

/// Predicted effects of earlier steps of the plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EarlierStepEffects {
    /// Things that will exist.
    pub will_exist: BTreeSet<ProvidedItem>,
    /// Paths that earlier steps will remove.
    pub will_go: BTreeSet<String>,
    /// Paths that earlier steps create, change or remove.
    pub will_touch: BTreeSet<String>,
    /// What leads elsewhere, or changes together with something else, after a change of an earlier step, with that step:
    /// paths of links and mount points, accounts, units.
    pub redirected: BTreeMap<ProvidedItem, StepId>,
    /// Units that earlier steps stop.
    pub will_stop: BTreeSet<String>,
    /// Targets that earlier steps write into the `[Install]` section of units, by unit.
    pub will_install: BTreeMap<String, Vec<String>>,
    /// Whether an earlier step may remove things that cannot be predicted: a package, a command.
    pub takes_more: bool,
    /// Whether an earlier step may change any file: a package, a command.
    pub is_opaque: bool,
    /// Whether an earlier step may write or remove files that it does not name: a package, a command, an archive.
    pub may_touch_other_files: bool,
    /// The same for an earlier step that removes nothing.
    pub may_bring_files: bool,
    /// The name of an earlier step with changes that this one may depend on, if any. A command's check, for example,
    /// may then have another result.
    pub after: Option<String>,
    /// Whether `apt-get update` has just run: it does not bring a version that its lists lack.
    pub lists_updated: bool,
    /// Whether the plan undoes a run, so that nothing new is expected in repositories that the undo does not change.
    pub is_undo: bool,
    /// Recipes, on any host, with a step that will change and exports values.
    pub exporters: BTreeSet<String>,
}

impl EarlierStepEffects {
    /// Returns the earlier step after which these probes read something else.
    pub fn find_redirection(&self, probes: &[Probe]) -> Option<&StepId> {
        let concerns = |item: &ProvidedItem, probe: &Probe| match (item, probe) {
            (ProvidedItem::Path(place), Probe::Path { path, .. }) => {
                path.strip_prefix(place.as_str()).is_some_and(|rest| rest.starts_with('/'))
            }
            (ProvidedItem::Unit(unit), Probe::Unit { name }) => name == unit,
            (ProvidedItem::User(account), Probe::User { name }) => name == account,
            (ProvidedItem::User(account), Probe::AuthorizedKeys { user }) => user == account,
            _ => false,
        };
        let found = self.redirected.iter().find(|(item, _)| probes.iter().any(|probe| concerns(item, probe)));
        found.map(|(_, step)| step)
    }

    /// Reports whether an earlier step may change `path`, or remove it, perhaps with a directory above it.
    pub fn may_change_path(&self, path: &str) -> bool {
        let goes_with = |gone: &String| {
            path.strip_prefix(gone.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.is_opaque || self.will_touch.contains(path) || self.will_go.iter().any(goes_with)
    }

    /// Reports whether an earlier step changes which repositories apt reads.
    pub fn may_change_repositories(&self) -> bool {
        let is_source = |path: &String| path.starts_with("/etc/apt/");
        self.is_opaque || self.will_touch.iter().chain(&self.will_go).any(is_source)
    }

    /// Reports whether a step of `recipe` will produce its exports.
    pub fn will_export(&self, recipe: &str) -> bool {
        self.exporters.contains(recipe)
    }
}
