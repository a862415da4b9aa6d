package system

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/toolgate/toolgate/native/embedded"
	"github.com/toolgate/toolgate/native/plugins/files"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Name is the plugin's key in the configuration.
const Name = "system"

// Config configures the plugin. All paths are absolute.
type Config struct {
	// Logs are the files that read_logs may read, and folders whose whole content it
	// may read.
	Logs []string `json:"logs,omitempty"`
	// Disks are folders whose file systems are measured; if empty, the system's.
	Disks []string `json:"disks,omitempty"`
	// Own are the gateway's own files and folders, out of reach whatever the logs.
	Own []string `json:"own,omitempty"`
	// Journal is journalctl; empty: there is no such program. ReadJournal adds the tool
	// for it.
	Journal     string `json:"journal,omitempty"`
	ReadJournal bool   `json:"read_journal,omitempty"`
	// Nvidia is nvidia-smi; empty: there is no such program.
	Nvidia string `json:"nvidia,omitempty"`
	// Cards is where the kernel has its graphics cards; empty: /sys/class/drm.
	Cards string `json:"cards,omitempty"`
	// MaxBytes bounds how much of a log one call reads; 0 is 1 MiB.
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

// defaultMax bounds how much of a log one call reads.
const defaultMax = 1 << 20

func init() { embedded.Enter(Name, Plugin) }

// Plugin returns the plugin.
func Plugin() *toolapi.Plugin {
	s := &service{}
	p := toolapi.New(Name, "")
	p.Init = func(config []byte) error {
		if err := s.open(config); err != nil {
			return err
		}
		p.Add(s.tools()...)
		if s.reads {
			p.Add(s.journalTool())
		}
		return nil
	}
	p.Close = func() {
		if s.logs != nil {
			s.logs.Close()
		}
	}
	return p
}

// service is the state that the tools share.
type service struct {
	logs  *files.Tree
	disks []string
	max   int64

	journal, nvidia string // the programs; empty where there is none
	reads           bool   // whether the journal may be read
	drm             string // the folder of graphics cards
}

func (s *service) open(config []byte) error {
	var c Config
	err := toolapi.ReadConfig(config, &c)
	if err != nil {
		return err
	}
	if s.logs, err = files.Open(files.Rules{Roots: c.Logs, Forbidden: c.Own}); err != nil {
		return fmt.Errorf("open the logs: %w", err)
	}
	s.disks, s.max = c.Disks, c.MaxBytes
	s.journal, s.reads, s.nvidia, s.drm = c.Journal, c.ReadJournal, c.Nvidia, cmp.Or(c.Cards, "/sys/class/drm")
	if len(s.disks) == 0 {
		s.disks = []string{"/"}
		if runtime.GOOS == "windows" {
			s.disks = []string{os.Getenv("SystemDrive") + `\`}
		}
	}
	if s.max <= 0 {
		s.max = defaultMax
	}
	return nil
}

const category = "system"

func (s *service) tools() []toolapi.Tool {
	return []toolapi.Tool{
		{
			Name: "metrics_snapshot", Title: "Load of this machine", Category: category, Risk: toolapi.Low,
			Description: "Tell how busy this machine is now: processors, memory, disks, graphics processors, load and how long it has been up. Takes a fifth of a second, in which the processors are watched.",
			Input:       json.RawMessage(metricsInput), Output: json.RawMessage(metricsOutput),
			ReadOnly: true, Idempotent: true, Timeout: 10 * time.Second, RatePerHour: 1200, Run: s.metrics,
		},
		{
			Name: "process_health", Title: "State of processes", Category: category, Risk: toolapi.Low,
			Description: "Tell the state, memory and processor use of a process by its number, or of all of a name. Arguments and environments are never told.",
			Input:       json.RawMessage(processInput), Output: json.RawMessage(processOutput),
			ReadOnly: true, Idempotent: true, Timeout: 10 * time.Second, RatePerHour: 1200, Run: s.processes,
		},
		{
			Name: "read_logs", Title: "Read the end of a log", Category: category, Risk: toolapi.Medium,
			Description: "Return the last lines of a configured log file, by its absolute path; with contains, the last ones that have that text in them.",
			Input:       json.RawMessage(logsInput), Output: json.RawMessage(logsOutput),
			ReadOnly: true, Idempotent: true, Timeout: 10 * time.Second, RatePerHour: 1200, Run: s.readLogs,
		},
	}
}

func (s *service) journalTool() toolapi.Tool {
	return toolapi.Tool{
		Name: "read_journal", Title: "Read the end of the journal", Category: category, Risk: toolapi.Medium,
		Description: "Return the last lines of the system's journal, of one unit or of all; with contains, the last ones that have that text in them.",
		Input:       json.RawMessage(journalInput), Output: json.RawMessage(journalOutput),
		ReadOnly: true, Idempotent: true, Timeout: 10 * time.Second, RatePerHour: 1200, Run: s.readJournal,
	}
}
