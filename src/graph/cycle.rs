//! Cycles, printed whole.
pub(super) fn nothing() {}
