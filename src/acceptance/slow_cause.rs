//! Why a job on several hosts is slow: ordered questions, the answers of each host, and the causes that they leave.

use crate::model::{HostName, UntrustedText};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How probable it is that a finding explains a slow job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseLikelihood {
    /// It costs something, on some systems nothing that is noticed.
    Possible,
    /// It costs much under load.
    Likely,
    /// The job cannot be fast with it.
    Certain,
}

/// A question about a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowQuestion {
    /// Its name: `gpudirect`.
    pub name: String,
    /// The question, with its question mark.
    pub question: String,
    /// Why a finding makes a job slow.
    pub cause: String,
    /// How probable it is that a finding explains a slow job.
    pub likelihood: CauseLikelihood,
    /// Recipes of which one repairs it.
    #[serde(default)]
    pub recipes: Vec<String>,
    /// What a person does, if no recipe repairs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

/// The answer of a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionAnswer {
    /// Something was found: the evidence.
    Found(UntrustedText),
    /// Nothing was found: the evidence that excludes a cause.
    Clear(UntrustedText),
    /// It could not be determined: the reason, as a lowercase fragment.
    Unknown(UntrustedText),
    /// It does not apply to the host.
    NotApplicable,
    /// It was not asked, because this earlier question found the cause of anything that it could find.
    AnsweredBy(String),
}

/// An answer, with the hosts that gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SharedAnswer {
    /// The answer.
    pub answer: QuestionAnswer,
    /// In inventory order.
    pub hosts: Vec<HostName>,
}

/// A question with all answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnsweredQuestion {
    /// The question.
    #[serde(flatten)]
    pub question: SlowQuestion,
    /// Different answers, in the order of the first host that gave them.
    pub answers: Vec<SharedAnswer>,
}

impl AnsweredQuestion {
    /// Returns the hosts on which something was found.
    pub fn found_hosts(&self) -> Vec<&HostName> {
        let found = self.answers.iter().filter(|shared| matches!(shared.answer, QuestionAnswer::Found(_)));
        found.flat_map(|shared| &shared.hosts).collect()
    }
}

/// Groups the answers of hosts by question. Each host has one answer to each question.
pub fn group_answers(
    questions: Vec<SlowQuestion>,
    answers: &[(HostName, Vec<QuestionAnswer>)],
) -> Vec<AnsweredQuestion> {
    let of_question = |at: usize| {
        let mut shared: IndexMap<&QuestionAnswer, Vec<HostName>> = IndexMap::new();
        for (host, own) in answers {
            if let Some(answer) = own.get(at) {
                shared.entry(answer).or_default().push(host.clone());
            }
        }
        shared.into_iter().map(|(answer, hosts)| SharedAnswer { answer: answer.clone(), hosts }).collect()
    };
    let group = |(at, question)| AnsweredQuestion { question, answers: of_question(at) };
    questions.into_iter().enumerate().map(group).collect()
}

/// Returns the questions that found something, the most likely cause first; among equals, the earlier question: what it
/// asks about is what later ones build on.
pub fn rank_causes(path: &[AnsweredQuestion]) -> Vec<&AnsweredQuestion> {
    let mut causes: Vec<&AnsweredQuestion> = path.iter().filter(|asked| !asked.found_hosts().is_empty()).collect();
    causes.sort_by_key(|asked| std::cmp::Reverse(asked.question.likelihood));
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(name: &str, likelihood: CauseLikelihood) -> SlowQuestion {
        let text = || name.to_owned();
        SlowQuestion { name: text(), question: text(), cause: text(), likelihood, recipes: Vec::new(), action: None }
    }

    #[test]
    fn equal_answers_share_a_line_and_the_likeliest_cause_is_first() {
        let questions = vec![
            question("mtu", CauseLikelihood::Possible),
            question("acs", CauseLikelihood::Likely),
            question("clocks", CauseLikelihood::Likely),
            question("iommu", CauseLikelihood::Certain),
        ];
        let found = |text: &str| QuestionAnswer::Found(text.into());
        let clear = || QuestionAnswer::Clear("fine".into());
        let answers = [
            (HostName::new("a"), vec![found("1024"), found("x"), found("hot"), clear()]),
            (HostName::new("b"), vec![clear(), found("x"), clear(), QuestionAnswer::Unknown("no tool".into())]),
        ];
        let path = group_answers(questions, &answers);
        assert_eq!(
            path[1].answers,
            [SharedAnswer { answer: found("x"), hosts: vec![HostName::new("a"), HostName::new("b")] }]
        );
        assert_eq!(path[0].answers.len(), 2);
        let ranked: Vec<&str> = rank_causes(&path).iter().map(|asked| asked.question.name.as_str()).collect();
        assert_eq!(ranked, ["acs", "clocks", "mtu"], "`iommu` found nothing");
    }
}
