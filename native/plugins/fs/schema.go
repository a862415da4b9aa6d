package fs

// The schemas of the tools' arguments and results (JSON Schema 2020-12).
const (
	dialect = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,`
	path    = `"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Absolute path, without \"..\" and without a last slash"}`
	outPath = `"path":{"type":"string"}`

	readInput = dialect + `"required":["path"],"properties":{` + path + `,` +
		`"offset":{"type":"integer","minimum":0,"description":"Byte to begin at; 0 if absent"},` +
		`"length":{"type":"integer","minimum":1,"description":"Bytes to read at most; as many as allowed if absent"},` +
		`"encoding":{"type":"string","enum":["auto","text","base64"],"description":"auto, the default, is text where the bytes are UTF-8 and base64 elsewhere"}}}`
	readOutput = dialect + `"required":["path","content","encoding","offset","length","size","modified"],"properties":{` + outPath + `,` +
		`"content":{"type":"string"},"encoding":{"type":"string","enum":["text","base64"]},` +
		`"offset":{"type":"integer","minimum":0},"length":{"type":"integer","minimum":0,"description":"Bytes of the file that content stands for"},` +
		`"size":{"type":"integer","minimum":0,"description":"Bytes that the whole file has"},"modified":{"type":"string"},` +
		`"next_offset":{"type":"integer","minimum":1,"description":"Where to read on; absent at the end"}}}`

	listInput = dialect + `"required":["path"],"properties":{` + path + `,` +
		`"after":{"type":"string","maxLength":1024,"description":"Return the names after this one"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"Entries to return at most; 200 if absent"}}}`
	listOutput = dialect + `"required":["path","entries"],"properties":{` + outPath + `,` +
		`"entries":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["name","kind","size","modified"],"properties":{` +
		`"name":{"type":"string"},"kind":{"type":"string","enum":["file","folder","link","pipe","socket","device","unknown"]},` +
		`"size":{"type":"integer","minimum":0},"modified":{"type":"string"}}}},` +
		`"next_after":{"type":"string","description":"What to give as after for the next page; absent at the end"},` +
		`"unnamed":{"type":"integer","minimum":1,"description":"Entries left out because their names have control characters or are not UTF-8"},` +
		`"cut":{"type":"boolean","description":"The folder has so many entries that not all were looked at"}}}`

	writeInput = dialect + `"required":["path","content"],"properties":{` + path + `,` +
		`"content":{"type":"string","description":"What the file is to hold"},` +
		`"encoding":{"type":"string","enum":["text","base64"],"description":"What content is written in; text if absent"},` +
		`"create_only":{"type":"boolean","description":"Refuse where the file exists already; false if absent"},` +
		`"create_folders":{"type":"boolean","description":"Make the folders on the way that are missing; false if absent"}}}`
	writeOutput = dialect + `"required":["path","size","replaced"],"properties":{` + outPath + `,` +
		`"size":{"type":"integer","minimum":0},"replaced":{"type":"boolean","description":"There was a file before"}}}`

	deleteInput  = dialect + `"required":["path"],"properties":{` + path + `}}`
	deleteOutput = dialect + `"required":["path","deleted"],"properties":{` + outPath + `,"deleted":{"type":"boolean"}}}`
)
