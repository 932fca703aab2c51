//! Parallel work on hosts: one thread per core, results in the order of the hosts.

use std::num::NonZero;
use std::thread::{self, Builder, ScopedJoinHandle};

/// Number of hosts that justify a thread: planning one takes about a tenth of a millisecond, checking its declarations a third of that.
const ITEMS_PER_THREAD: usize = 64;

/// Does `work` for each item. The result does not depend on the number of threads.
pub fn map_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    map_on_threads(cores.min(items.len() / ITEMS_PER_THREAD), items, work)
}

/// Does `work` for each of a few large items, such as files.
pub fn map_large_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    map_on_threads(cores.min(items.len()), items, work)
}

fn map_on_threads<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if threads < 2 || items.is_empty() {
        return items.iter().map(work).collect();
    }
    let some = |items: &[T]| -> Vec<R> { items.iter().map(&work).collect() };
    thread::scope(|scope| {
        let mut parts = items.chunks(items.len().div_ceil(threads));
        let own = parts.next().unwrap_or_default();
        let begin = |part| Builder::new().spawn_scoped(scope, move || some(part)).map_err(|_| part);
        let begun: Vec<Result<ScopedJoinHandle<'_, Vec<R>>, &[T]>> = parts.map(begin).collect();
        let mut done = some(own);
        for part in begun {
            done.extend(match part {
                Ok(handle) => handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // The thread could not be started: this thread does the work, which takes longer.
                Err(part) => some(part),
            });
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_input_order_for_any_thread_count() {
        let items: Vec<u32> = (0..1000).collect();
        let twice: Vec<u32> = items.iter().map(|n| n * 2).collect();
        for threads in [0, 1, 2, 3, 7, 999, 1000, 2000] {
            assert_eq!(map_on_threads(threads, &items, |n| n * 2), twice, "{threads}");
        }
        assert_eq!(map_parallel(&items, |n| n * 2), twice);
        assert_eq!(map_on_threads(4, &[0; 0], |n: &u32| *n), [0; 0]);
    }

    #[test]
    #[should_panic(expected = "number 999")]
    fn worker_panic_is_propagated() {
        let items: Vec<u32> = (0..1000).collect();
        map_on_threads(2, &items, |n| assert!(*n < 999, "number {n}"));
    }
}
