//! Rejects texts that the engine cannot compile safely: its parser and compiler recurse and fold constants.
//!
//! Nesting is counted on tokens, before a tree exists. The parser reads a chain like `1 + 1 + …` in a loop but builds a
//! tree as deep as the chain is long, and walking or dropping such a tree overflows the stack.

use super::TemplateError;
use minijinja::machinery::ast::{BinOpKind, Expr};
use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use std::ops::Range;

/// Maximum sum of levels of operators, filters, brackets and blocks.
const MAX_NESTING: usize = 200;

/// Maximum size of the values that constant folding may create while a text is compiled. Bytes.
const MAX_FOLDED: f64 = (1 << 20) as f64;

/// Returns an error at the first place where `source` nests too deep.
pub(super) fn find_deep_nesting(source: &str, in_expression: bool, syntax: SyntaxConfig) -> Option<TemplateError> {
    let mut depth = NestingCounter::default();
    for token in tokenize(source, in_expression, syntax) {
        // The parser reports invalid tokens.
        let Ok((token, span)) = token else { return None };
        depth.count_token(&token);
        if depth.total_depth() > MAX_NESTING {
            return Some(TemplateError {
                message: format!("the template nests deeper than {MAX_NESTING} levels"),
                range: Some(span_to_range(span)),
                hint: Some("move a part of it to a variable: `{% set part = … %}`".into()),
                undefined: false,
            });
        }
    }
    None
}

/// Levels inside one pair of brackets. Operators form one tree; suffixes of an operand (`.name`, `| filter`) form
/// another one below it.
#[derive(Default)]
struct BracketLevels {
    operators: usize,
    operand: usize,
    deepest: usize,
    /// Depth of the part before the last comma.
    before: usize,
}

impl BracketLevels {
    fn depth(&self) -> usize {
        self.before.max(self.operators + self.deepest)
    }

    fn deepen(&mut self, inner: usize) {
        self.operand = self.operand.max(inner) + 1;
        self.deepest = self.deepest.max(self.operand);
    }
}

#[derive(Default)]
struct NestingCounter {
    groups: Vec<BracketLevels>,
    /// Open blocks, each with its number of branches: the engine nests an `elif` in the preceding `if`.
    blocks: Vec<usize>,
    /// Whether the next token is the name of a block.
    names_block: bool,
    /// Whether the current block is a `set` without a value so far.
    open_set: bool,
}

impl NestingCounter {
    fn total_depth(&self) -> usize {
        let groups = self.groups.iter().map(|group| 1 + group.depth()).sum::<usize>();
        self.blocks.iter().sum::<usize>() + groups
    }

    fn count_token(&mut self, token: &Token<'_>) {
        if std::mem::take(&mut self.names_block)
            && let Token::Ident(name) = token
        {
            return self.count_block(name);
        }
        match token {
            Token::TemplateData(_) | Token::VariableStart | Token::VariableEnd => self.groups.clear(),
            Token::BlockStart => {
                self.groups.clear();
                self.names_block = true;
            }
            Token::BlockEnd => {
                self.groups.clear();
                self.blocks.extend(std::mem::take(&mut self.open_set).then_some(1));
            }
            Token::Comma => {
                *self.current_group() =
                    BracketLevels { before: self.current_group().depth(), ..BracketLevels::default() }
            }
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                self.current_group();
                self.groups.push(BracketLevels::default());
            }
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                let inner = self.groups.pop().map_or(0, |group| group.depth());
                self.current_group().deepen(inner);
            }
            Token::Dot | Token::Pipe | Token::Ident("is") => self.current_group().deepen(0),
            Token::Assign => self.open_set &= self.groups.len() > 1,
            Token::Ident("and" | "or" | "not" | "in" | "if" | "else") => self.count_operator(),
            Token::Ident(_) | Token::Str(_) | Token::String(_) => {}
            Token::Int(_) | Token::Int128(_) | Token::Float(_) | Token::Colon => {}
            _ => self.count_operator(),
        }
    }

    fn count_block(&mut self, name: &str) {
        match name {
            "elif" | "else" => self.blocks.iter_mut().last().into_iter().for_each(|branches| *branches += 1),
            "set" => self.open_set = true,
            "if" | "for" | "with" | "filter" | "autoescape" => self.blocks.push(1),
            _ if name.starts_with("end") => drop(self.blocks.pop()),
            _ => {}
        }
    }

    fn count_operator(&mut self) {
        let group = self.current_group();
        group.operators += 1;
        group.operand = 0;
    }

    fn current_group(&mut self) -> &mut BracketLevels {
        if self.groups.is_empty() {
            self.groups.push(BracketLevels::default());
        }
        let last = self.groups.len() - 1;
        &mut self.groups[last]
    }
}

/// Adds up the values that constant folding creates: `"x" * 100000000` becomes a text of 100 MB during compilation.
#[derive(Default)]
pub(super) struct FoldedLiterals(f64);

impl FoldedLiterals {
    /// Counts one operator.
    ///
    /// # Errors
    /// The folded values of the text exceed the limit.
    pub fn add_operator(&mut self, expr: &Expr<'_>) -> Result<(), TemplateError> {
        self.0 += bound_literal(expr).map_or(0.0, |literal| literal.size);
        match self.0 > MAX_FOLDED {
            true => Err(TemplateError {
                message: "literals expand to more than 1 MiB of text".into(),
                range: Some(span_to_range(expr.span())),
                hint: Some("repeat them less often".into()),
                undefined: false,
            }),
            false => Ok(()),
        }
    }
}

/// Upper bounds of a literal: its size in bytes, and its value if it is a number.
struct LiteralBounds {
    size: f64,
    number: f64,
}

impl LiteralBounds {
    /// Treats results without a value (`0 * inf`) as unbounded.
    fn new(size: f64, number: f64) -> Self {
        let bound = |value: f64| if value.is_nan() { f64::INFINITY } else { value };
        Self { size: bound(size), number: bound(number) }
    }
}

fn bound_literal(expr: &Expr<'_>) -> Option<LiteralBounds> {
    match expr {
        Expr::Const(value) => Some(match value.value.as_str() {
            Some(text) => LiteralBounds::new(text.len() as f64, 0.0),
            None => LiteralBounds::new(40.0, f64::try_from(value.value.clone()).unwrap_or(0.0).abs()),
        }),
        Expr::List(list) => bound_literals(list.items.iter()),
        Expr::Tuple(tuple) => bound_literals(tuple.items.iter()),
        Expr::Map(map) => bound_literals(map.keys.iter().chain(&map.values)),
        Expr::UnaryOp(op) => bound_literal(&op.expr),
        Expr::BinOp(op) => {
            let (left, right) = (bound_literal(&op.left)?, bound_literal(&op.right)?);
            let both = left.size + right.size;
            Some(match op.op {
                BinOpKind::Mul => {
                    let times = left.number.max(right.number).max(1.0);
                    LiteralBounds::new(both * times, left.number * right.number)
                }
                BinOpKind::Pow => LiteralBounds::new(40.0, left.number.powf(right.number)),
                _ => LiteralBounds::new(both, left.number + right.number),
            })
        }
        _ => None,
    }
}

fn bound_literals<'e, 'a: 'e>(items: impl Iterator<Item = &'e Expr<'a>>) -> Option<LiteralBounds> {
    let size = items.map(|item| bound_literal(item).map(|item| item.size + 32.0)).sum::<Option<f64>>()?;
    Some(LiteralBounds::new(size, 0.0))
}

fn span_to_range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}
