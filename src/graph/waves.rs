//! Waves: the steps that could run at the same time according to the edges.

use super::Graph;
use super::edge::{GraphEdge, StepIndex};
use crate::model::StepPhase;
use std::collections::HashMap;

impl Graph {
    /// Returns the wave of every step, counted from 0: the first one after all of its dependencies' waves. A recipe is
    /// verified after its last step, so steps that wait for its verification also wait for that step.
    pub fn compute_waves(&self) -> Vec<usize> {
        let last: HashMap<&str, StepIndex> =
            self.steps.iter().enumerate().map(|(at, id)| (&*id.recipe, StepIndex(at as u32))).collect();
        let from = |edge: &GraphEdge| match edge.phase {
            StepPhase::Verified => last.get(&*self.step_id(edge.from).recipe).copied().unwrap_or(edge.from),
            StepPhase::Configured | StepPhase::Effective => edge.from,
        };
        let mut waves = vec![0; self.steps.len()];
        // One pass along the order suffices, unless a recipe's last step comes after a step that waits for its
        // verification.
        for _ in 0..self.steps.len() {
            let before = waves.clone();
            for to in self.order.iter() {
                let earliest = self.incoming_edges(*to).map(|edge| waves[from(edge).0 as usize] + 1).max();
                let own = &mut waves[to.0 as usize];
                *own = earliest.unwrap_or(0).max(*own);
            }
            if waves == before {
                break;
            }
        }
        waves
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DependencyKind, DependencyLink, GraphEndpoint, GraphStep};
    use super::*;
    use crate::diag::{FileId, Span};

    const NOWHERE: Span = Span { file: FileId(0), start: 0, end: 0 };

    fn waves_of_steps(steps: &[(&str, &str)], links: &[(&str, StepPhase, &str)]) -> Vec<usize> {
        let declared =
            |(recipe, step): &(&str, &str)| GraphStep { recipe: (*recipe).into(), step: (*step).into(), span: NOWHERE };
        let steps: Vec<_> = steps.iter().map(declared).collect();
        let end = |text: &str| match text.split_once('/') {
            Some((recipe, step)) => GraphEndpoint { recipe: recipe.into(), step: Some(step.into()) },
            None => GraphEndpoint { recipe: text.into(), step: None },
        };
        let links: Vec<_> = links
            .iter()
            .map(|(from, phase, to)| DependencyLink {
                from: end(from),
                phase: *phase,
                to: end(to),
                why: DependencyKind::Needs,
                span: NOWHERE,
            })
            .collect();
        Graph::build(&steps, &links).unwrap().compute_waves()
    }

    #[test]
    fn steps_without_dependencies_are_in_the_first_wave() {
        let steps = [("b", "1"), ("a", "1"), ("a", "2"), ("c", "1")];
        assert_eq!(waves_of_steps(&steps, &[("a", StepPhase::Effective, "b")]), [2, 0, 1, 0]);
    }

    #[test]
    fn need_at_verified_waits_for_the_last_step_of_the_recipe() {
        let steps = [("b", "1"), ("a", "1"), ("a", "2")];
        assert_eq!(waves_of_steps(&steps, &[("a/1", StepPhase::Effective, "b")]), [1, 0, 1]);
        assert_eq!(waves_of_steps(&steps, &[("a/1", StepPhase::Verified, "b")]), [2, 0, 1]);
    }
}
