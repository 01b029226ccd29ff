//! Adds up the usage of a run in progress, from the model's messages and their parts.

use std::collections::BTreeSet;

use super::wire::{Message, MessageTokens};
use crate::engine::Spending;
use crate::engine::price::{self, PRICES};

/// The sum of ended messages, and the current message. A message arrives in parts and then complete; its figures only
/// grow.
#[derive(Debug, Default)]
pub(super) struct LiveUsage {
    whole: Spending,
    /// The ids of all messages so far: a late line about an earlier message adds nothing.
    known: BTreeSet<String>,
    id: String,
    model: String,
    current: Spending,
}

impl LiveUsage {
    pub(super) fn begin(&mut self, message: &Message) {
        let is_repeated = !message.id.is_empty() && message.id == self.id;
        if !is_repeated {
            if self.known.contains(&message.id) {
                return;
            }
            self.whole = self.spending();
            self.current = Spending::default();
            self.id.clone_from(&message.id);
            self.known.extend((!message.id.is_empty()).then(|| message.id.clone()));
        }
        self.model.clone_from(&message.model);
        self.update(message.usage);
    }

    pub(super) fn update(&mut self, tokens: MessageTokens) {
        let raise =
            |known: &mut u64, reported: Option<u64>| *known = reported.unwrap_or_default().max(*known);
        raise(&mut self.current.input, tokens.input_tokens);
        raise(&mut self.current.cache_write, tokens.cache_creation_input_tokens);
        raise(&mut self.current.cache_read, tokens.cache_read_input_tokens);
        raise(&mut self.current.output, tokens.output_tokens);
    }

    pub(super) fn spending(&self) -> Spending {
        let cost_usd = price::cost(PRICES, &self.model, &self.current);
        self.whole.plus(&Spending { cost_usd, ..self.current })
    }
}
