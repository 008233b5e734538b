package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
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
	m := machine{
		Date:     time.Now().UTC().Format(time.DateOnly),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs:     runtime.NumCPU(),
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	if kernel, err := proc.SysctlStrings("kernel.osrelease"); err == nil {
		m.Kernel = strings.Join(kernel, " ")
	}
	if cpus, err := proc.CPUInfo(); err == nil && len(cpus) > 0 {
		m.CPU = cpus[0].ModelName
	}
	if load, err := proc.LoadAvg(); err == nil {
		m.Load = fmt.Sprintf("%.2f", load.Load1)
	}
	return m
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %s, %s, kernel %s, %d CPUs (%s), load before the run %s",
		m.Date, m.Go, m.Platform, m.Kernel, m.CPUs, m.CPU, m.Load)
}

// freeMemory returns how many bytes of memory programs can get without swapping; 0 if the system does not say.
func freeMemory() int64 {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	memory, err := proc.Meminfo()
	if err != nil || memory.MemAvailableBytes == nil {
		return 0
	}
	return int64(*memory.MemAvailableBytes)
}

const mib = 1 << 20

// residentBytes returns the resident memory of a process.
func residentBytes(pid int) (float64, error) {
	stat, err := statOf(pid)
	return float64(stat.ResidentMemory()), err
}

func statOf(pid int) (procfs.ProcStat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return p.Stat()
}

// processCPU returns the CPU time of another process.
func processCPU(pid int) (time.Duration, error) {
	stat, err := statOf(pid)
	return seconds(stat.CPUTime()), err
}

// familyCPU returns the CPU time of a process, its children, and the children of all of them that have ended.
func familyCPU(pid int) (total time.Duration, err error) {
	members, err := family(pid)
	if err != nil {
		return 0, err
	}
	for _, member := range members {
		stat, err := statOf(member)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // a child that has just ended
		}
		if err != nil {
			return 0, err
		}
		stat.UTime, stat.STime = stat.UTime+uint(stat.CUTime), stat.STime+uint(stat.CSTime)
		total += seconds(stat.CPUTime())
	}
	return total, nil
}

// family returns the IDs of a process and its children.
func family(pid int) ([]int, error) {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return nil, err
	}
	members := []int{pid}
	for _, child := range strings.Fields(string(children)) {
		n, err := strconv.Atoi(child)
		if err != nil {
			return nil, err
		}
		members = append(members, n)
	}
	return members, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
