//! State: records on hosts, and runs next to the inventory.

mod drift;
mod history;
mod record;
mod store;

pub use drift::{DriftLog, DriftTurn, Telling};
pub use history::{RunFolder, RunInfo, VERSION as RUN_VERSION, runs};
pub use record::{APPLIED_DIR, Former, Identity, Record, STATE_DIR, Started, prepare, write};
pub use store::{RunDir, Store, StoreError};
