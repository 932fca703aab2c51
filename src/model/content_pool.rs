//! Values of many hosts that are equal, kept once.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of parts with a lock each, so that threads seldom wait for each other.
const PARTS: usize = 16;

/// A value with its hash.
type PooledValue<T> = (u64, Arc<T>);

/// Keeps one copy of each value that is handed to it. Hosts with the same recipes have mostly equal steps, probes and
/// answers: a hundred thousand hosts share what one of them needs.
pub struct ContentPool<T: ?Sized> {
    hashing: DefaultHashBuilder,
    /// Each value with its hash, which growing would compute again.
    parts: [Mutex<HashTable<PooledValue<T>>>; PARTS],
}

impl<T: ?Sized> Default for ContentPool<T> {
    fn default() -> Self {
        Self { hashing: DefaultHashBuilder::default(), parts: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl<T: ?Sized> std::fmt::Debug for ContentPool<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContentPool").finish_non_exhaustive()
    }
}

impl<T: Eq + Hash + ?Sized> ContentPool<T> {
    /// Returns the kept copy of `value`. The first value of its content becomes that copy.
    pub fn share(&self, value: Arc<T>) -> Arc<T> {
        let hash = self.hashing.hash_one(&*value);
        // The table itself uses the lowest and the highest bits of a hash.
        let part = &self.parts[(hash >> 32) as usize % PARTS];
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kept)) = part.find(hash, |(other, kept)| *other == hash && **kept == *value) {
            return kept.clone();
        }
        part.insert_unique(hash, (hash, value.clone()), |(hash, _)| *hash);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_one_copy() {
        let pool = ContentPool::default();
        let words: Vec<Arc<String>> = (0..1000).map(|n| pool.share(Arc::new(format!("word {}", n % 100)))).collect();
        for (n, word) in words.iter().enumerate() {
            assert_eq!(**word, format!("word {}", n % 100));
            assert!(Arc::ptr_eq(word, &words[n % 100]), "{n}");
        }
        assert!(!Arc::ptr_eq(&words[0], &words[1]));
    }
}
