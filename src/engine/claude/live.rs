//! Adds up what a run uses while it goes, from the parts of the model's messages.

use super::wire::{Message, Tokens};
use crate::engine::Spending;
use crate::engine::price::{self, PRICES};

/// Whole messages and the one being spoken. The figures of a part replace those of the parts before it.
#[derive(Debug, Default)]
pub(super) struct Live {
    whole: Spending,
    model: String,
    current: Spending,
}

impl Live {
    pub(super) fn begin(&mut self, message: &Message) {
        self.whole = self.spending();
        self.model.clone_from(&message.model);
        self.current = Spending::default();
        self.update(message.usage);
    }

    pub(super) fn update(&mut self, tokens: Tokens) {
        let replace = |known: &mut u64, told: Option<u64>| *known = told.unwrap_or(*known);
        replace(&mut self.current.input, tokens.input_tokens);
        replace(&mut self.current.cache_write, tokens.cache_creation_input_tokens);
        replace(&mut self.current.cache_read, tokens.cache_read_input_tokens);
        replace(&mut self.current.output, tokens.output_tokens);
    }

    pub(super) fn spending(&self) -> Spending {
        let cost_usd = price::cost(PRICES, &self.model, &self.current);
        self.whole.plus(&Spending { cost_usd, ..self.current })
    }
}
