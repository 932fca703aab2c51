//! The sections that parse recorded answers, built once for all hosts with equal queries.

use super::exchange::ProbeExchange;
use super::section::ProbeSection;
use super::{FactSnippet, Probe, section_sorting};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::{Arc, PoisonError, RwLock};

/// Maximum number of sections that are kept. Queries with values of one host would fill the memory.
const KEPT_SECTIONS: usize = 512;

/// Finds the sections that parse recorded answers. Hosts with the same recipes have mostly equal queries, and building a
/// section takes longer than parsing its answer.
#[derive(Default)]
pub struct ReplaySections {
    hashing: DefaultHashBuilder,
    kept: RwLock<HashTable<(u64, Arc<ProbeSection>)>>,
}

impl std::fmt::Debug for ReplaySections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplaySections").finish_non_exhaustive()
    }
}

impl ReplaySections {
    /// Returns the section that would send the same query today, if there is one.
    pub(super) fn find_section(&self, exchange: &ProbeExchange, facts: &[FactSnippet]) -> Option<Arc<ProbeSection>> {
        let hash = self.hashing.hash_one((&exchange.asked, &exchange.probes, exchange.limit_s));
        if let Some(section) = self.find_kept(hash, exchange) {
            return Some(section);
        }
        let section = Arc::new(build_section(exchange, facts)?);
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_SECTIONS {
            kept.insert_unique(hash, (hash, section.clone()), |(hash, _)| *hash);
        }
        Some(section)
    }

    fn find_kept(&self, hash: u64, exchange: &ProbeExchange) -> Option<Arc<ProbeSection>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let fits = |section: &ProbeSection| {
            section.name == exchange.asked && section.timeout_s == exchange.limit_s && section.probes == exchange.probes
        };
        kept.find(hash, |(other, section)| *other == hash && fits(section)).map(|(_, section)| section.clone())
    }
}

fn build_section(exchange: &ProbeExchange, facts: &[FactSnippet]) -> Option<ProbeSection> {
    let probes: BTreeSet<Probe> = exchange.probes.iter().cloned().collect();
    let mut sections = section_sorting::build_ungrouped_sections(&probes, facts).0;
    let at = sections.iter().position(|section| section.name == exchange.asked && section.probes == exchange.probes)?;
    let mut section = sections.swap_remove(at);
    section.timeout_s = exchange.limit_s;
    Some(section)
}

#[cfg(test)]
mod tests {
    use super::super::UnansweredReason;
    use super::super::exchange::ExchangeAnswer;
    use super::*;

    fn build_exchange(asked: &str, limit_s: u64) -> ProbeExchange {
        let probes = vec![Probe::Path { path: "/etc".into(), want: None }];
        let answer = ExchangeAnswer::Unknown(UnansweredReason::new("x"));
        ProbeExchange { asked: asked.into(), probes, at: String::new(), limit_s, answer }
    }

    #[test]
    fn section_is_built_once_per_query_and_limit() {
        let sections = ReplaySections::default();
        let find = |asked, limit_s| sections.find_section(&build_exchange(asked, limit_s), &[]);
        let first = find("`stat`", 20).unwrap();
        assert!(Arc::ptr_eq(&first, &find("`stat`", 20).unwrap()));
        assert_eq!((first.timeout_s, find("`stat`", 30).unwrap().timeout_s), (20, 30));
        assert!(find("the records", 20).is_none(), "another query has the name");
    }
}
