package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// machine describes the machine, on which the figures depend in addition to the disk.
type machine struct {
	Date     string `json:"date"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Kernel   string `json:"kernel"`
	CPUs     int    `json:"cpus"`
	CPU      string `json:"cpu"`
	// Load is the load average over the minute before the run. It is near 0 on an idle machine.
	Load string `json:"load"`
}

// thisMachine reads the description from Linux. Fields that it does not find stay empty.
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
