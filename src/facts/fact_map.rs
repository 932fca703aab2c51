//! The facts of one host by their names. Several hosts may share equal ones.

use crate::model::{ContentPool, Value};
use crate::probe::UnansweredReason;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::Arc;

/// The value of a fact, or why it is unknown.
pub type FactAnswer = Result<Value, UnansweredReason>;

/// The facts of one host, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FactMap(BTreeMap<Arc<str>, Arc<FactAnswer>>);

/// Keeps one copy of the facts of many hosts that are equal.
#[derive(Debug, Default)]
pub struct FactPool {
    names: ContentPool<str>,
    answers: ContentPool<FactAnswer>,
}

impl FactMap {
    /// Returns a fact, if it was observed.
    pub fn get(&self, name: &str) -> Option<&FactAnswer> {
        self.0.get(name).map(AsRef::as_ref)
    }

    /// Stores a fact, in place of an earlier answer.
    pub fn insert(&mut self, name: &str, answer: FactAnswer) {
        self.0.insert(name.into(), Arc::new(answer));
    }

    /// Returns every fact, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &FactAnswer)> {
        self.0.iter().map(|(name, answer)| (&**name, &**answer))
    }

    /// Returns the names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(Borrow::borrow)
    }

    /// Returns the values and the reasons of unknown ones, in the order of the names.
    pub fn values(&self) -> impl Iterator<Item = &FactAnswer> {
        self.0.values().map(AsRef::as_ref)
    }

    /// Returns the number of facts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether no fact was observed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the facts of a later observation: they replace those of the same name.
    pub fn merge(&mut self, later: Self) {
        self.0.extend(later.0);
    }

    /// Returns the facts with these names, without copying their values.
    pub fn select(&self, admits: impl Fn(&str) -> bool) -> Self {
        let some = self.0.iter().filter(|(name, _)| admits(name));
        Self(some.map(|(name, answer)| (name.clone(), answer.clone())).collect())
    }

    /// Replaces facts by equal ones of other hosts.
    pub fn share(&mut self, pool: &FactPool) {
        let all = std::mem::take(&mut self.0).into_iter();
        self.0 = all.map(|(name, answer)| (pool.names.share(name), pool.answers.share(answer))).collect();
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, FactAnswer)> for FactMap {
    fn from_iter<I: IntoIterator<Item = (N, FactAnswer)>>(facts: I) -> Self {
        Self(facts.into_iter().map(|(name, answer)| (name.into(), Arc::new(answer))).collect())
    }
}

impl<N: Into<Arc<str>>, const COUNT: usize> From<[(N, FactAnswer); COUNT]> for FactMap {
    fn from(facts: [(N, FactAnswer); COUNT]) -> Self {
        facts.into_iter().collect()
    }
}

impl Index<&str> for FactMap {
    type Output = FactAnswer;

    fn index(&self, name: &str) -> &FactAnswer {
        &self.0[name]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_facts_of_hosts_are_one_allocation() {
        let pool = FactPool::default();
        let mut hosts = ["a", "b"].map(|id| {
            let os = json!({ "id": "debian", "version": [12, 5.5] });
            FactMap::from([
                ("os", Ok(os)),
                ("boot", Ok(json!({ "id": id }))),
                ("gpus", Err(UnansweredReason::new("x"))),
            ])
        });
        let before = hosts.clone();
        hosts.iter_mut().for_each(|facts| facts.share(&pool));
        assert_eq!(hosts, before);
        let same = |name: &str| std::ptr::eq(&hosts[0][name], &hosts[1][name]);
        assert_eq!(["os", "gpus", "boot"].map(same), [true, true, false]);
    }
}
