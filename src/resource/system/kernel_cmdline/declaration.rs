//! The declaration of kernel arguments.

use super::kernel_arguments::DeclaredArguments;
use crate::resource::shared::file_target::FileTarget;

#[derive(Debug)]
pub(super) struct KernelCmdlineResource {
    pub(super) wanted: DeclaredArguments,
    pub(super) target: FileTarget,
    pub(super) absent: bool,
}
