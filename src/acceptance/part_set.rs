//! Sets of fabric parts, as bits: what a run covers, and which parts are cleared.

/// A set of part numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartSet {
    words: Vec<u64>,
}

impl PartSet {
    /// Returns an empty set with room for `parts` part numbers.
    pub fn with_capacity(parts: usize) -> Self {
        Self { words: vec![0; parts.div_ceil(64)] }
    }

    /// Adds a part number.
    pub fn insert(&mut self, part: usize) {
        let word = part / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (part % 64);
    }

    /// Returns whether the set has that part number.
    pub fn contains(&self, part: usize) -> bool {
        self.words.get(part / 64).is_some_and(|word| word & (1 << (part % 64)) != 0)
    }

    /// Adds every part of `other`.
    pub fn insert_all(&mut self, other: &Self) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(word, more)| *word |= more);
    }

    /// Returns the parts of the set that are not in `other`.
    pub fn without(&self, other: &Self) -> Self {
        let other = other.words.iter().copied().chain(std::iter::repeat(0));
        Self { words: self.words.iter().zip(other).map(|(word, less)| word & !less).collect() }
    }

    /// Removes a part number.
    pub fn remove(&mut self, part: usize) {
        if let Some(word) = self.words.get_mut(part / 64) {
            *word &= !(1 << (part % 64));
        }
    }

    /// Returns the parts that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self { words: self.words.iter().zip(&other.words).map(|(word, more)| word & more).collect() }
    }

    /// Returns the number of parts that are in both sets.
    pub fn count_common(&self, other: &Self) -> usize {
        self.words.iter().zip(&other.words).map(|(word, more)| (word & more).count_ones() as usize).sum()
    }

    /// Returns the number of parts.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether the set has no part.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns the part numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            std::iter::successors((*word != 0).then_some(*word), |word| {
                let rest = word & (word - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |word| at * 64 + word.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_different_sizes_are_combined() {
        let set = |parts: &[usize]| {
            let mut set = PartSet::default();
            parts.iter().for_each(|part| set.insert(*part));
            set
        };
        let (few, many) = (set(&[1, 63]), set(&[63, 64, 200]));
        assert_eq!(many.iter().collect::<Vec<_>>(), [63, 64, 200]);
        assert_eq!((few.count(), many.contains(200), few.contains(200)), (2, true, false));
        assert_eq!((few.count_common(&many), many.count_common(&few)), (1, 1));
        assert_eq!(many.without(&few).iter().collect::<Vec<_>>(), [64, 200]);
        assert_eq!(few.without(&many).iter().collect::<Vec<_>>(), [1]);
        let mut both = few.clone();
        both.insert_all(&many);
        assert_eq!(both.iter().collect::<Vec<_>>(), [1, 63, 64, 200]);
        assert!(few.without(&few).is_empty());
    }
}
