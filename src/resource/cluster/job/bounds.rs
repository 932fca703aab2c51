//! Which names a workload may have.

use crate::diag::Diag;
use crate::object::ObjectId;
use crate::resource::shared::support::bad_value;

/// Maximum length of the name, which leaves room for the suffixes that a run and the controllers add.
const MAX_NAME_LENGTH: usize = 40;
/// # Errors
/// The name is too long, or not a valid Kubernetes name.
pub(super) fn check_workload_name(id: &ObjectId) -> Result<(), Diag> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let name = &id.name;
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    match first && name.len() <= MAX_NAME_LENGTH && name.bytes().all(inner) && !name.ends_with('-') {
        true => Ok(()),
        false => Err(bad_value(format!("`{name}` is not a valid workload name"))
            .with_field("object")
            .hint(format!("use lowercase letters, digits and `-`, at most {MAX_NAME_LENGTH}; each run adds a suffix"))),
    }
}
