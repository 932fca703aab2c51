//! Lists of hosts whose equal elements are one allocation.

use crate::model::ContentPool;
use serde::{Deserialize, Serialize};
use std::hash::Hash;
use std::sync::Arc;

/// A list whose elements other lists may share: most steps of a plan are equal on many hosts. It is read like a `Vec<T>`
/// and has the same JSON; changing an element copies it if it is shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SharedList<T>(Vec<Arc<T>>);

impl<T> SharedList<T> {
    /// Returns the elements in their order.
    pub fn iter(&self) -> SharedIter<'_, T> {
        SharedIter(self.0.iter())
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether the list has no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the element at a position, if there are so many.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.0.get(at).map(AsRef::as_ref)
    }

    /// Returns the first element, if there is one.
    pub fn first(&self) -> Option<&T> {
        self.get(0)
    }

    /// Adds an element that no other list shares.
    pub fn push(&mut self, element: T) {
        self.0.push(Arc::new(element));
    }
}

impl<T: PartialEq> SharedList<T> {
    /// Reports whether an element equals `element`.
    pub fn contains(&self, element: &T) -> bool {
        self.iter().any(|own| own == element)
    }
}

impl<T: Clone> SharedList<T> {
    /// Returns the elements for changes.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(Arc::make_mut)
    }
}

impl<T: Eq + Hash> SharedList<T> {
    /// Builds a list that shares its elements with the other lists of `pool`.
    pub(super) fn from_pool(elements: Vec<T>, pool: &ContentPool<T>) -> Self {
        // Its length is known: the list has no room for further elements.
        Self(elements.into_iter().map(|element| pool.share(Arc::new(element))).collect::<Box<[_]>>().into_vec())
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self(elements.into_iter().map(Arc::new).collect())
    }
}

impl<T> From<Vec<T>> for SharedList<T> {
    fn from(elements: Vec<T>) -> Self {
        elements.into_iter().collect()
    }
}

impl<T> std::ops::Index<usize> for SharedList<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.0[at]
    }
}

impl<T: Clone> std::ops::IndexMut<usize> for SharedList<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        Arc::make_mut(&mut self.0[at])
    }
}

impl<'l, T> IntoIterator for &'l SharedList<T> {
    type Item = &'l T;
    type IntoIter = SharedIter<'l, T>;

    fn into_iter(self) -> SharedIter<'l, T> {
        self.iter()
    }
}

/// The elements of a [`SharedList`].
#[derive(Clone, Debug)]
pub struct SharedIter<'l, T>(std::slice::Iter<'l, Arc<T>>);

impl<'l, T> Iterator for SharedIter<'l, T> {
    type Item = &'l T;

    fn next(&mut self) -> Option<&'l T> {
        self.0.next().map(AsRef::as_ref)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> DoubleEndedIterator for SharedIter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(AsRef::as_ref)
    }
}

impl<T> ExactSizeIterator for SharedIter<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_list(pool: &ContentPool<String>, words: &[&str]) -> SharedList<String> {
        SharedList::from_pool(words.iter().map(ToString::to_string).collect(), pool)
    }

    #[test]
    fn equal_elements_of_several_lists_are_shared() {
        let pool = ContentPool::default();
        let (first, second) = (build_list(&pool, &["a", "b"]), build_list(&pool, &["c", "b", "b"]));
        assert!(std::ptr::eq(&first[1], &second[1]) && std::ptr::eq(&second[1], &second[2]));
        assert_eq!(second.iter().rev().collect::<Vec<_>>(), ["b", "b", "c"]);
    }

    #[test]
    fn change_of_one_list_leaves_the_others() {
        let pool = ContentPool::default();
        let (first, mut second) = (build_list(&pool, &["a"]), build_list(&pool, &["a"]));
        second[0].push('x');
        second.iter_mut().for_each(|word| word.push('y'));
        assert_eq!((first[0].as_str(), second[0].as_str()), ("a", "axy"));
    }

    #[test]
    fn json_is_the_one_of_a_vec() {
        let list: SharedList<String> = vec!["a".to_owned()].into();
        let text = serde_json::to_string(&list).unwrap();
        assert_eq!(text, r#"["a"]"#);
        assert_eq!(serde_json::from_str::<SharedList<String>>(&text).unwrap(), list);
    }
}
