INSERT INTO {{paused}} (topic, since) VALUES ($1, {{clock}}) ON CONFLICT (topic) DO NOTHING
