//! What differs between a declared mount and a host: the entry in fstab, and the current mount.

use crate::model::UntrustedText;
use crate::resource::shared::composite::render_part;
use crate::resource::{AttributeChange, ChangeAspect, ChangedPart, RecordedValue, ResourceDiff, ValueChange};
use serde::Serialize;

/// How a mount differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MountDiff {
    pub fstab: Option<FstabDiff>,
    pub current: Option<CurrentMountDiff>,
    pub unit: Option<MaskedUnitDiff>,
}

impl ResourceDiff for MountDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let current = render_part("mounted", ChangedPart::Main, self.current.as_ref());
        let unit = render_part("unit", ChangedPart::MountUnit, self.unit.as_ref());
        render_part("fstab", ChangedPart::FstabEntry, self.fstab.as_ref())
            .into_iter()
            .chain(current)
            .chain(unit)
            .collect()
    }

    fn leads_elsewhere(&self) -> bool {
        matches!(self.current, Some(CurrentMountDiff::Mount { .. } | CurrentMountDiff::Unmount { .. }))
    }

    fn may_bar_login(&self) -> bool {
        self.leads_elsewhere()
    }
}

/// The unit of the mount is masked, so that systemd does not mount it at boot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MaskedUnitDiff {
    pub unit: String,
}

impl ResourceDiff for MaskedUnitDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        vec![
            AttributeChange::new("mask", Some(&format!("{} masked", self.unit)), Some("not masked"))
                .with_aspect(ChangeAspect::Enablement),
        ]
    }
}

/// The lines of fstab for the mount point, and the line that replaces them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FstabDiff {
    /// Every line as observed, in order.
    pub old: Vec<UntrustedText>,
    /// The declared line; `None` for a removal.
    pub new: Option<String>,
}

impl ResourceDiff for FstabDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let entry = |from: Option<&str>, to: Option<&str>| {
            AttributeChange::new("entry", from, to)
                .with_aspect(ChangeAspect::Content)
                .recorded(RecordedValue::At("/entry"))
        };
        let new = self.new.as_deref();
        if let ([one], Some(_)) = (self.old.as_slice(), new) {
            return vec![entry(Some(one.raw()), new)];
        }
        let gone = self.old.iter().map(|line| entry(Some(line.raw()), None));
        gone.chain(new.map(|line| entry(None, Some(line)))).collect()
    }
}

/// How the current mount differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum CurrentMountDiff {
    /// Nothing is mounted.
    Mount { source: String, fstype: String },
    /// The declared file system is mounted with other options.
    Remount { options: Vec<ValueChange<String>> },
    /// A file system is mounted that must not be.
    Unmount { source: String, fstype: String, options: Vec<String> },
}

impl ResourceDiff for CurrentMountDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Mount { source, fstype } => {
                vec![render_mounted(None, Some(&describe_source(source, fstype)))]
            }
            Self::Remount { options } => options.iter().map(|option| option.render_change("options")).collect(),
            Self::Unmount { source, fstype, .. } => {
                vec![render_mounted(Some(&describe_source(source, fstype)), None)]
            }
        }
    }
}

fn render_mounted(from: Option<&str>, to: Option<&str>) -> AttributeChange {
    AttributeChange::new("mounted", from, to)
        .with_aspect(ChangeAspect::Mounted)
        .recorded(RecordedValue::ImpliedBy(&["/state", "/entry"]))
}

/// Returns source and type as text.
fn describe_source(source: &str, fstype: &str) -> String {
    format!("{source} ({fstype})")
}
