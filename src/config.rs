//! Settings: flag over environment over file over default, with unknown keys refused.
