//! Accounts and groups that a change needs: the plan reports a missing one, because the change would fail.

use super::support::{group_state, user_state, will_be_provided};
use crate::model::{BlockClass, StepVerdict};
use crate::probe::{Observation, Probe, UnansweredReason, UserState};
use crate::resource::{Assessment, AssessmentContext, EarlierStepEffects, ProvidedItem};
use serde_json::json;
use std::collections::BTreeSet;

/// An account or a group, by its name.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::resource) enum AccountName {
    User(String),
    Group(String),
}

/// Whether an account exists when the step runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::resource) enum AccountPresence {
    Exists,
    /// An earlier step creates it, or may create it, as packages and commands do.
    Comes,
    Missing,
}

impl AccountName {
    /// Returns the accounts that own a file.
    pub fn list_owners(owner: &str, group: &str) -> [Self; 2] {
        [Self::User(owner.to_owned()), Self::Group(group.to_owned())]
    }

    fn name(&self) -> &str {
        match self {
            Self::User(name) | Self::Group(name) => name,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Group(_) => "group",
        }
    }

    /// Returns `` account `app` `` or `` group `app` ``.
    pub fn describe(&self) -> String {
        let what = if matches!(self, Self::User(_)) { "account" } else { "group" };
        format!("{what} `{}`", self.name())
    }

    /// Returns what to do if it is missing.
    pub fn missing_hint(&self) -> String {
        format!("add a `{}` step before this one", self.kind())
    }

    /// Returns the probe. `root` exists everywhere, and a number needs no account.
    pub fn probe(&self) -> Option<Probe> {
        let name = self.name();
        let named = name != "root" && !name.bytes().all(|b| b.is_ascii_digit());
        named.then(|| match self {
            Self::User(name) => Probe::User { name: name.clone() },
            Self::Group(name) => Probe::Group { name: name.clone(), gid: None },
        })
    }

    /// Looks the account up.
    pub fn find_presence(
        &self,
        seen: &Observation,
        predicted: Option<&EarlierStepEffects>,
    ) -> Result<AccountPresence, UnansweredReason> {
        let Some(probe) = self.probe() else { return Ok(AccountPresence::Exists) };
        let (exists, item) = match self {
            Self::User(name) => (*user_state(seen, &probe)? != UserState::Absent, ProvidedItem::User(name.clone())),
            Self::Group(name) => (group_state(seen, &probe)?.group.is_some(), ProvidedItem::Group(name.clone())),
        };
        let may_come = || predicted.is_some_and(|earlier| earlier.is_opaque) || will_be_provided(predicted, &item);
        Ok(match exists {
            true => AccountPresence::Exists,
            false if may_come() => AccountPresence::Comes,
            false => AccountPresence::Missing,
        })
    }
}

/// Returns the probes of accounts.
pub(in crate::resource) fn account_probes(needed: &[AccountName]) -> impl Iterator<Item = Probe> {
    needed.iter().filter_map(AccountName::probe)
}

/// Returns the judgement of a change that needs accounts: blocked if one of them does not exist.
pub(in crate::resource) fn require_accounts<D>(
    judgement: Assessment<D>,
    needed: &[AccountName],
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment<D> {
    if judgement.verdict != StepVerdict::Change {
        return judgement;
    }
    let mut comes = false;
    for account in needed {
        match account.find_presence(seen, cx.predicted) {
            Err(unknown) => return Assessment::unknown(&unknown),
            Ok(AccountPresence::Exists) => {}
            Ok(AccountPresence::Comes) => comes = true,
            Ok(AccountPresence::Missing) => {
                let reason = format!("{} does not exist and no earlier step creates it", account.describe());
                let basis = json!({ account.kind(): "absent" });
                return Assessment::blocked(BlockClass::Host, reason, basis).hint(account.missing_hint());
            }
        }
    }
    if comes { judgement.mark_predicted() } else { judgement }
}

/// Evaluates an account or a group that is missing and must not be created: blocked, unless an earlier step creates it.
pub(in crate::resource) fn assess_uncreated<D>(
    creation: Assessment<D>,
    account: &AccountName,
    cx: &AssessmentContext<'_>,
) -> Assessment<D> {
    let item = match account {
        AccountName::User(name) => ProvidedItem::User(name.clone()),
        AccountName::Group(name) => ProvidedItem::Group(name.clone()),
    };
    if will_be_provided(cx.predicted, &item) {
        return creation.mark_predicted();
    }
    let reason = format!("{} does not exist, and `create` is false", account.describe());
    Assessment::blocked(BlockClass::Host, reason, creation.basis)
        .host_hint("create it first, or leave the step out with `--skip`")
}

/// Marks a change of memberships as predicted if an earlier step changes one of the accounts or groups that it concerns:
/// memberships belong to both.
pub(in crate::resource) fn expect_membership_changes<D>(
    judgement: Assessment<D>,
    concerned: BTreeSet<ProvidedItem>,
    cx: &AssessmentContext<'_>,
) -> Assessment<D> {
    match cx.predicted.is_some_and(|earlier| !earlier.will_exist.is_disjoint(&concerned)) {
        true => judgement.mark_predicted(),
        false => judgement,
    }
}

/// Evaluates a number (`uid 1001`) that belongs to `holder`: blocked, unless an earlier step may change the number of
/// the holder. `field` is where it is declared.
pub(in crate::resource) fn assess_taken_number<D>(
    judgement: Assessment<D>,
    (field, number): (&str, u32),
    holder: &AccountName,
    cx: &AssessmentContext<'_>,
) -> Assessment<D> {
    let reason = format!("{field} {number} belongs to {}", holder.describe());
    if cx.predicted.is_some_and(|p| p.after.is_some()) {
        let reason = format!("{reason}, which an earlier step may change").into();
        return Assessment { reason, ..judgement }.mark_predicted();
    }
    let hint =
        format!("choose another `{field}`, or change the {field} of `{}` in a step before this one", holder.name());
    Assessment::blocked(BlockClass::Rule, reason, judgement.basis).hint(hint)
}
