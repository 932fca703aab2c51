//! The account that a scheduled job runs as: without it the job never runs.

use super::accounts::{AccountName, AccountPresence};
use crate::model::BlockClass;
use crate::probe::{Observation, Probe};
use crate::resource::{Assessment, EarlierStepEffects};
use serde_json::json;

/// Returns the probe of an account that a job runs as. `root` exists everywhere, and a number needs no account.
pub(in crate::resource) fn job_account_probe(user: &str) -> Option<Probe> {
    AccountName::User(user.to_owned()).probe()
}

/// Returns the judgement of a job whose account does not exist, or could not be looked up: `consequence` is what happens to
/// it then. `None` if the account exists, or if an earlier step may create it, as packages do.
pub(in crate::resource) fn assess_job_account<D>(
    user: &str,
    consequence: &str,
    seen: &Observation,
    predicted: Option<&EarlierStepEffects>,
) -> Option<Assessment<D>> {
    let account = AccountName::User(user.to_owned());
    match account.find_presence(seen, predicted) {
        Err(unknown) => Some(Assessment::unknown(&unknown)),
        Ok(AccountPresence::Exists | AccountPresence::Comes) => None,
        Ok(AccountPresence::Missing) => {
            let reason = format!("{} does not exist: {consequence}", account.describe());
            let blocked = Assessment::blocked(BlockClass::Host, reason, json!({ "account": "absent" }));
            Some(blocked.hint(account.missing_hint()))
        }
    }
}
