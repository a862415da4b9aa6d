package system

import (
	"bytes"
	"context"
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxGPUs bounds the processors that are told of.
const maxGPUs = 64

// gpu is what a driver tells of a graphics processor. Figures that it does not tell are
// nil.
type gpu struct {
	Name        string   `json:"name"`
	Driver      string   `json:"driver"`
	Percent     *float64 `json:"percent,omitempty"`
	MemoryTotal *uint64  `json:"memory_total,omitempty"`
	MemoryUsed  *uint64  `json:"memory_used,omitempty"`
}

// gpus returns what the drivers of this machine tell: nvidia-smi, and the files of the
// kernel. why says why there is nothing; empty if there is something.
func (s *service) gpus(ctx context.Context) (all []gpu, why string) {
	all = kernelGPUs(s.drm)
	if s.nvidia == "" {
		if len(all) == 0 {
			return nil, "gpu: no driver tells of one"
		}
		return all, ""
	}
	out, err := run(ctx, 5*time.Second, 64<<10, s.nvidia, "--query-gpu=name,utilization.gpu,memory.total,memory.used", "--format=csv,noheader,nounits")
	if err == nil {
		all = append(all, nvidiaGPUs(out)...)
	}
	if all = all[:min(len(all), maxGPUs)]; len(all) == 0 {
		return nil, "gpu: nvidia-smi does not answer"
	}
	return all, ""
}

// kernelGPUs reads the files that drivers of the kernel have below a folder of cards.
// Only some drivers have figures there, such as amdgpu.
func kernelGPUs(drm string) (all []gpu) {
	cards, err := filepath.Glob(filepath.Join(drm, "card*", "device"))
	if err != nil {
		return nil
	}
	slices.Sort(cards)
	for _, device := range cards {
		if card := filepath.Base(filepath.Dir(device)); strings.Contains(card, "-") || len(all) == maxGPUs {
			continue // a connector of a card
		}
		driver, err := filepath.EvalSymlinks(filepath.Join(device, "driver"))
		if err != nil {
			continue
		}
		g := gpu{Name: firstLine(filepath.Join(device, "product_name")), Driver: filepath.Base(driver)}
		if g.Driver == "nvidia" { // of which nvidia-smi tells
			continue
		}
		if g.Name == "" {
			g.Name = filepath.Base(filepath.Dir(device))
		}
		if busy, err := strconv.ParseFloat(firstLine(filepath.Join(device, "gpu_busy_percent")), 64); err == nil && busy >= 0 {
			g.Percent = &busy
		}
		g.MemoryTotal, g.MemoryUsed = figure(filepath.Join(device, "mem_info_vram_total")), figure(filepath.Join(device, "mem_info_vram_used"))
		all = append(all, g)
	}
	return all
}

// figure reads a number from a file of the kernel, nil where there is none.
func figure(path string) *uint64 {
	n, err := strconv.ParseUint(firstLine(path), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// firstLine returns the first line of a small file, empty where there is none.
func firstLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line := make([]byte, 256)
	n, _ := f.Read(line)
	first, _, _ := bytes.Cut(line[:n], []byte("\n"))
	return legible(strings.TrimSpace(string(first)))
}

// nvidiaGPUs reads the lines of nvidia-smi: name, percent, and MiB of memory. It writes
// [N/A] for what a processor does not tell.
func nvidiaGPUs(out []byte) (all []gpu) {
	r := csv.NewReader(bytes.NewReader(out))
	r.TrimLeadingSpace, r.LazyQuotes, r.FieldsPerRecord = true, true, -1
	for {
		fields, err := r.Read()
		if err != nil || len(fields) != 4 || len(all) == maxGPUs {
			return all
		}
		g := gpu{Name: legible(fields[0]), Driver: "nvidia"}
		if busy, err := strconv.ParseFloat(fields[1], 64); err == nil && busy >= 0 {
			g.Percent = &busy
		}
		mebibytes := func(text string) *uint64 {
			n, err := strconv.ParseUint(text, 10, 40)
			if err != nil {
				return nil
			}
			n <<= 20
			return &n
		}
		g.MemoryTotal, g.MemoryUsed = mebibytes(fields[2]), mebibytes(fields[3])
		all = append(all, g)
	}
}
