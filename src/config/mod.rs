//! What people write: inventories and recipes, read into typed values with their places.

mod cx;
mod expand;
mod inventory;
mod load;
mod project;
mod scalar;
mod table;
mod template;
mod yaml;

pub use expand::{Deferred, Expanded, Expander, Exports, Judged, Known, State};
pub use load::{LoadOptions, load};
pub use project::*;
pub use template::{Eval, FactSource, Need, TemplateError};
