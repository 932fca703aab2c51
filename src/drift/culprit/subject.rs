//! The object of a finding, under its names in a host's logs.

use crate::resource::{ChangeAspect, ChangedObject};

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
