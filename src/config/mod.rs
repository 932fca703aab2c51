//! What people write: inventories and recipes, read into typed values with their places.

mod project;
mod template;

pub use project::*;
pub use template::{Eval, FactSource, Need, Scope, TemplateError};
