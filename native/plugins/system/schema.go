package system

// The schemas of the tools' arguments and results (JSON Schema 2020-12).
const (
	object  = `{"type":"object","additionalProperties":false,`
	dialect = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,`
	count   = `{"type":"integer","minimum":0}`
	share   = `{"type":"number","minimum":0,"description":"Percent"}`

	metricsInput  = dialect + `"properties":{}}`
	metricsOutput = dialect + `"required":["at","disks"],"properties":{"at":{"type":"string"},` +
		`"cpu":` + object + `"required":["count","percent"],"properties":{"count":` + count + `,"percent":` + share + `}},` +
		`"memory":` + object + `"required":["total","available","used","percent","swap_total","swap_used"],"properties":{"total":` + count +
		`,"available":` + count + `,"used":` + count + `,"percent":` + share + `,"swap_total":` + count + `,"swap_used":` + count + `}},` +
		`"load":` + object + `"required":["one","five","fifteen"],"properties":{"one":{"type":"number"},"five":{"type":"number"},"fifteen":{"type":"number"}}},` +
		`"disks":{"type":"array","items":` + object + `"required":["path","total","used","free","percent"],"properties":{"path":{"type":"string"},"total":` + count +
		`,"used":` + count + `,"free":` + count + `,"percent":` + share + `}}},` +
		`"gpus":{"type":"array","maxItems":64,"items":` + object + `"required":["name","driver"],"properties":{"name":{"type":"string"},"driver":{"type":"string"},"percent":` + share +
		`,"memory_total":` + count + `,"memory_used":` + count + `}}},` +
		`"uptime_seconds":` + count + `,"unavailable":{"type":"array","items":{"type":"string"},"description":"What this machine does not tell"}}}`

	processInput = dialect + `"oneOf":[{"required":["pid"]},{"required":["name"]}],"properties":{` +
		`"pid":{"type":"integer","minimum":1,"description":"Number of the process"},` +
		`"name":{"type":"string","minLength":1,"maxLength":255,"description":"Name of the program, without its folder"}}}`
	processOutput = dialect + `"required":["processes"],"properties":{"processes":{"type":"array","maxItems":100,"items":` + object +
		`"required":["pid","parent","name","state","rss_bytes","cpu_percent","threads"],"properties":{` +
		`"pid":` + count + `,"parent":` + count + `,"name":{"type":"string"},"state":{"type":"string"},"rss_bytes":` + count +
		`,"cpu_percent":{"type":"number","minimum":0,"description":"Of one processor, on average since it was started"},"threads":` + count + `,"started":{"type":"string"}}}},` +
		`"more":{"type":"boolean","description":"There are more than are returned"}}}`

	journalInput = dialect + `"properties":{` +
		`"unit":{"type":"string","minLength":1,"maxLength":255,"description":"Only this unit, such as ssh.service"},` +
		`"lines":{"type":"integer","minimum":1,"maximum":5000,"description":"Lines to return at most; 100 if absent"},` +
		`"contains":{"type":"string","maxLength":1000,"description":"Return only lines that have this text in them"}}}`
	journalOutput = dialect + `"required":["lines","complete"],"properties":{"lines":{"type":"array","items":{"type":"string"}},` +
		`"complete":{"type":"boolean","description":"All of the journal was looked at, and all lines that were found are here"}}}`

	logsInput = dialect + `"required":["path"],"properties":{` +
		`"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Absolute path of the log"},` +
		`"lines":{"type":"integer","minimum":1,"maximum":5000,"description":"Lines to return at most; 100 if absent"},` +
		`"contains":{"type":"string","maxLength":1000,"description":"Return only lines that have this text in them"}}}`
	logsOutput = dialect + `"required":["path","lines","size","modified","searched_bytes","complete"],"properties":{` +
		`"path":{"type":"string"},"lines":{"type":"array","items":{"type":"string"}},"size":` + count + `,"modified":{"type":"string"},` +
		`"searched_bytes":{"type":"integer","minimum":0,"description":"How much of the end of the log was looked at"},` +
		`"complete":{"type":"boolean","description":"All of the log was looked at, and all lines that were found are here"}}}`
)
