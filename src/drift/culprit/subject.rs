//! The object of a finding, under its names in a host's logs.

use crate::drift::model::{DriftFinding, FindingAspect};
use crate::resource::{ChangeAspect, ChangedObject};

/// Returns the object that a user may have changed. A verification has no object of its own: one whose message mentions
/// the kernel is about the kernel.
pub fn find_changed_object(finding: &DriftFinding) -> ChangedObject {
    let about_kernel = finding.aspect == FindingAspect::Verification && finding.reason.raw().contains("kernel");
    if about_kernel { ChangedObject::Kernel } else { finding.object.clone() }
}

/// Reports whether a boot sets it again from the configuration.
pub fn is_reset_by_boot(object: &ChangedObject, aspect: ChangeAspect) -> bool {
    match object {
        ChangedObject::Sysctl(_) | ChangedObject::Module(_) => aspect == ChangeAspect::Loaded,
        ChangedObject::Mount(_) => aspect == ChangeAspect::Mounted,
        ChangedObject::Unit(_) => aspect == ChangeAspect::RunState,
        ChangedObject::Kernel | ChangedObject::Nameless => true,
        ChangedObject::Packages(_) | ChangedObject::Path(_) | ChangedObject::Account(_) => false,
    }
}
