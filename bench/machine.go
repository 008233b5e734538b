package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// machine is what the figures depend on beside the disk.
type machine struct {
	Date     string `json:"date"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Kernel   string `json:"kernel"`
	CPUs     int    `json:"cpus"`
	CPU      string `json:"cpu"`
	// Load is how many processes ran or waited to, over the minute before the run. On an idle machine it is near 0.
	Load string `json:"load"`
}

// thisMachine reads what Linux says of itself. What it does not say stays empty.
func thisMachine() machine {
	return machine{
		Date:     time.Now().UTC().Format(time.DateOnly),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Kernel:   firstField("/proc/sys/kernel/osrelease"),
		CPUs:     runtime.NumCPU(),
		CPU:      cpuModel(),
		Load:     firstField("/proc/loadavg"),
	}
}

func firstField(path string) string {
	text, _ := os.ReadFile(path)
	field, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return field
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %s, %s, kernel %s, %d CPUs (%s), load before the run %s",
		m.Date, m.Go, m.Platform, m.Kernel, m.CPUs, m.CPU, m.Load)
}
