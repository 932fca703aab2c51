//! Where state lives: records on the host, and runs beside the inventory.

mod record;
mod store;

pub use record::{prepare, remove, write, Record, Started, APPLIED_DIR, STATE_DIR};
pub use store::{RunDir, Store, StoreError};
