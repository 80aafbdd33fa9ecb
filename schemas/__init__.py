"""The language the parts share: topics, records, headers, units and identities. Imports nothing else of gpumeter."""
