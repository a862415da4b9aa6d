package spicedb

// Schema is a schema that has what the default [Mapping] asks for. A smaller
// one will do: a type tool with a permission execute for users is enough where
// servers offer neither prompts nor resources.
const Schema = `definition user {}

definition team {
	relation member: user | team#member
}

definition tenant {
	relation admin: user
	relation member: user | team#member
}

caveat business_hours(hour int, from int, to int) {
	hour >= from && hour < to
}

definition server {
	relation tenant: tenant
	relation executor: user | team#member | tenant#member
	permission execute = executor + tenant->admin
}

definition tool {
	relation server: server
	relation owner: user
	relation executor: user | team#member | user with business_hours
	relation banned: user
	permission execute = (owner + executor + server->execute) - banned
}

definition prompt {
	relation server: server
	relation owner: user
	relation executor: user | team#member | user with business_hours
	relation banned: user
	permission execute = (owner + executor + server->execute) - banned
}

definition resource {
	relation server: server
	relation owner: user
	relation reader: user | team#member | user with business_hours
	relation banned: user
	permission read = (owner + reader + server->execute) - banned
}
`
