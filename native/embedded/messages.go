package embedded

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/toolgate/toolgate/native/toolapi"
)

// The messages of native/proto/plugin.proto in the encoding of protobuf. Tests compare
// them with the generated code.

const (
	varintField = 0
	eightField  = 1
	bytesField  = 2
	fourField   = 5
)

var errMessage = errors.New("the message is not protobuf")

func appendKey(dst []byte, field, kind int) []byte {
	return binary.AppendUvarint(dst, uint64(field)<<3|uint64(kind)) // both are small
}

func appendBytes[T ~string | ~[]byte](dst []byte, field int, v T) []byte {
	if len(v) == 0 {
		return dst
	}
	return append(binary.AppendUvarint(appendKey(dst, field, bytesField), uint64(len(v))), v...)
}

func appendMessage(dst []byte, field int, v []byte) []byte {
	return append(binary.AppendUvarint(appendKey(dst, field, bytesField), uint64(len(v))), v...)
}

func appendInt(dst []byte, field int, v int64) []byte {
	if v == 0 {
		return dst
	}
	return binary.AppendUvarint(appendKey(dst, field, varintField), uint64(v)) // as protobuf has it
}

func appendBool(dst []byte, field int, v bool) []byte {
	if !v {
		return dst
	}
	return append(appendKey(dst, field, varintField), 1)
}

func appendDouble(dst []byte, field int, v float64) []byte {
	bits := math.Float64bits(v)
	if bits == 0 {
		return dst
	}
	return binary.LittleEndian.AppendUint64(appendKey(dst, field, eightField), bits)
}

// readFields calls each for every field of a message. The value is nil for a field
// that is not bytes.
func readFields(data []byte, each func(field int, value []byte)) error {
	for len(data) > 0 {
		key, n := binary.Uvarint(data)
		if n <= 0 || key>>3 == 0 || key>>3 > 1<<29-1 {
			return errMessage
		}
		data = data[n:]
		field := int(key >> 3) // bounded
		size := 0
		switch key & 7 {
		case varintField:
			if _, size = binary.Uvarint(data); size <= 0 {
				return errMessage
			}
		case eightField:
			size = 8
		case fourField:
			size = 4
		case bytesField:
			length, n := binary.Uvarint(data)
			if n <= 0 || length > uint64(len(data)-n) {
				return errMessage
			}
			data = data[n:]
			each(field, data[:length])
			data = data[length:]
			continue
		default:
			return errMessage
		}
		if size > len(data) {
			return errMessage
		}
		each(field, nil)
		data = data[size:]
	}
	return nil
}

// callRequest is CallRequest.
type callRequest struct {
	name, id  string
	arguments []byte
}

func readCall(data []byte) (r callRequest, err error) {
	err = readFields(data, func(field int, value []byte) {
		switch field {
		case 1:
			r.name = string(value)
		case 2:
			r.arguments = value
		case 3:
			r.id = string(value)
		}
	})
	return r, err
}

// readConfig returns the configuration of an InitRequest.
func readConfig(data []byte) (config []byte, err error) {
	err = readFields(data, func(field int, value []byte) {
		if field == 1 {
			config = value
		}
	})
	return config, err
}

// readService returns the service of a HealthCheckRequest.
func readService(data []byte) (service string, err error) {
	err = readFields(data, func(field int, value []byte) {
		if field == 1 {
			service = string(value)
		}
	})
	return service, err
}

// appendHello writes an InitResponse.
func appendHello(dst []byte, name string, layers []string) []byte {
	dst = appendBytes(dst, 1, name)
	for _, l := range layers {
		dst = appendMessage(dst, 3, []byte(l))
	}
	return dst
}

// appendTools writes a ListToolsResponse.
func appendTools(dst []byte, tools []toolapi.Tool) []byte {
	for i := range tools {
		dst = appendMessage(dst, 1, appendTool(nil, &tools[i]))
	}
	return dst
}

func appendTool(dst []byte, t *toolapi.Tool) []byte {
	dst = appendBytes(dst, 1, t.Name)
	dst = appendBytes(dst, 2, t.Title)
	dst = appendBytes(dst, 3, t.Description)
	dst = appendBytes(dst, 4, t.Input)
	dst = appendBytes(dst, 5, t.Output)
	dst = appendBytes(dst, 6, annotations(t))
	dst = appendBytes(dst, 7, t.Category)
	dst = appendBytes(dst, 8, string(t.Risk))
	dst = appendInt(dst, 9, t.Timeout.Milliseconds())
	dst = appendInt(dst, 10, int64(min(t.RatePerHour, math.MaxInt32)))
	return appendBool(dst, 11, t.Queue)
}

// annotations returns the annotations of a tool as MCP writes them.
func annotations(t *toolapi.Tool) []byte {
	out := []byte{'{'}
	for _, a := range []struct {
		name string
		is   bool
	}{{"readOnlyHint", t.ReadOnly}, {"destructiveHint", t.Destructive}, {"idempotentHint", t.Idempotent}, {"openWorldHint", t.OpenWorld}} {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), a.name...), `":`...)
		if a.is {
			out = append(out, "true"...)
		} else {
			out = append(out, "false"...)
		}
	}
	return append(out, '}')
}

// appendProgress writes a CallEvent with progress.
func appendProgress(dst []byte, done, total float64, message string) []byte {
	return appendMessage(dst, 1, appendBytes(appendDouble(appendDouble(nil, 1, done), 2, total), 3, message))
}

// appendLog writes a CallEvent with a log message.
func appendLog(dst []byte, level, logger string, data []byte) []byte {
	return appendMessage(dst, 2, appendBytes(appendBytes(appendBytes(nil, 1, level), 2, logger), 3, data))
}

// appendResult writes a CallEvent with a result.
func appendResult(dst []byte, r *toolapi.Result) []byte {
	size := len(r.Content) + len(r.Text) + len(r.Structured) + 32
	own := appendBool(make([]byte, 0, size), 1, r.IsError)
	own = appendBytes(own, 2, r.Content)
	own = appendBytes(own, 3, r.Text)
	own = appendBytes(own, 4, r.Structured)
	return appendMessage(dst, 3, own)
}
