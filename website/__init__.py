"""The docs site: mkdocs builds docs/ and what these modules make from the rules, the schema and the commands (`make site`)."""
