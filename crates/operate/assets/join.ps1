#Requires -Version 5.1
<#
.SYNOPSIS
    Makes this Windows machine a member of a Freehold org: fetches the agent, checks it, joins, keeps it running.
.DESCRIPTION
    It believes only the hashes that it is given. Everything is in functions, and the last line calls the first of them:
    a script that was cut off does nothing. The invite code is on stdin, and only freehold-node.exe gets it.
    Gateways speak TLS 1.3 alone: Windows 11, Windows Server 2022 and later.
    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused (something is not what the line says it is).
.EXAMPLE
    $code | powershell -NoProfile -File join.ps1 -Gateway https://HOST:7443 -Root SHA256 -Agents SHA256
#>
[CmdletBinding()]
param(
    # https://HOST:PORT of gateways, tried in turn
    [string[]] $Gateway = @(),
    # SHA-256 of a PEM file with the roots by which the gateways are believed: one for all, or one for each
    [string[]] $Root = @(),
    # SHA-256 of the list of agents
    [string] $Agents = '',
    # This machine's name in the org
    [string] $Name = '',
    # KEY=VALUE that the invite allows
    [string[]] $Label = @(),
    # Roles that the invite allows
    [string[]] $Role = @(),
    # Keep this org under another name than its own on this machine
    [string] $As = '',
    # Put the agent in again; an enrollment is not touched
    [switch] $Reinstall,
    # Leave the org, remove the service, and the agent if no other org here needs it
    [switch] $Uninstall,
    # Say what would be done, and change nothing
    [switch] $DryRun
)

function Invoke-Main([string[]] $Piped) {
    $script:Code = $Piped -join "`n"
    Set-StrictMode -Version 2
    $script:ErrorActionPreference = 'Stop'
    $script:ProgressPreference = 'Continue'
    $script:Doing = 'could not install freehold-node'
    $script:Bin = if ($env:FREEHOLD_BIN) { $env:FREEHOLD_BIN } else { Join-Path $env:ProgramFiles 'Freehold' }
    $script:Target = Join-Path $script:Bin 'freehold-node.exe'
    if ($As -and $As -cnotmatch '^[a-z0-9][a-z0-9-]*$') {
        Stop-Wrong "the name of a scope has small letters, digits and -: $As"
    }
    if ($Uninstall) {
        Invoke-Uninstall
        return
    }
    # A list that came through -File is one word with commas in it.
    $script:Gateways = @($Gateway | ForEach-Object { $_ -split ',' } | Where-Object { $_ })
    if ($script:Gateways.Count -eq 0) { Stop-Wrong 'no -Gateway was given' }
    foreach ($each in $script:Gateways) {
        if ($each -notmatch '^https://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]+$') {
            Stop-Wrong "not the address of a gateway, https://HOST:PORT: $each"
        }
    }
    $script:Roots = @($Root | ForEach-Object { $_ -split ',' } | Where-Object { $_ })
    if ($script:Roots.Count -eq 1) { $script:Roots = @($script:Gateways | ForEach-Object { $script:Roots[0] }) }
    if ($script:Roots.Count -ne $script:Gateways.Count) { Stop-Wrong 'give one -Root for all gateways, or one for each' }
    foreach ($each in @($script:Roots | ForEach-Object { , @('-Root', $_) }) + , @('-Agents', $Agents)) {
        if ($each[1] -cnotmatch '^[0-9a-f]{64}$') {
            Stop-Wrong "the value of $($each[0]) is not a SHA-256, 64 digits 0-9 a-f: $($each[1])"
        }
    }
    if (-not $DryRun -and -not (Test-Administrator)) {
        Stop-Join 1 "you are not an administrator, and only administrators may write to $script:Bin" `
            'run the line in a PowerShell that was started with "Run as administrator"'
    }
    Add-Fetcher
    $script:Work = Join-Path ([IO.Path]::GetTempPath()) ('freehold-join-' + [Guid]::NewGuid().ToString('N'))
    $null = New-Item -ItemType Directory -Path $script:Work
    try {
        Install-Agent
        if ($DryRun) {
            Write-Output 'would join with the code from stdin, and install a service'
            Write-Output 'Nothing was changed.'
            return
        }
        if ($Reinstall -and @(Get-Scope).Count -gt 0) {
            Write-Output 'The orgs that this machine is in are untouched.'
            Get-Service -Name 'freehold-node-*' | Start-Service
            return
        }
        $scope = Join-Org
        Install-AgentService $scope
    } finally {
        Remove-Item -Recurse -Force -LiteralPath $script:Work
    }
}

# ---- words ----

function Stop-Join([int] $Code, [string] $Why, [string] $Hint) {
    [Console]::Error.WriteLine("error: $script:Doing`n  caused by: $Why`nhint: $Hint")
    exit $Code
}

function Stop-Wrong([string] $Why) {
    $script:Doing = 'could not begin'
    Stop-Join 2 $Why 'copy the whole line again'
}

function Test-Administrator {
    $identity = [Security.Principal.WindowsIdentity]::GetCurrent()
    $principal = New-Object Security.Principal.WindowsPrincipal $identity
    return $principal.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)
}

# ---- fetching ----

# The check of a certificate runs on a thread that has no PowerShell, so it is written in C#, of the version that every
# Windows has.
function Add-Fetcher {
    if ('FreeholdFetcher' -as [type]) { return }
    # PowerShell 7 has everything at hand unless it is told what to take; 5.1 must be told.
    $taken = if ($PSVersionTable.PSEdition -eq 'Core') { @{} } else { @{ ReferencedAssemblies = @('System.Net.Http') } }
    Add-Type @taken -TypeDefinition @'
using System;
using System.Collections.Generic;
using System.IO;
using System.Net;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading.Tasks;

public sealed class FreeholdFetcher : IDisposable
{
    private readonly HttpClient client;
    private readonly List<X509Certificate2> roots;

    // Without roots, whoever answers is asked: for the roots alone, whose hash is compared before they are used.
    public FreeholdFetcher(byte[] pem)
    {
        roots = pem == null ? null : Read(pem);
        var handler = new HttpClientHandler();
        handler.AllowAutoRedirect = false;
        handler.ServerCertificateCustomValidationCallback =
            (message, leaf, chain, errors) => roots == null || StandsUnder(leaf, chain, errors);
        client = new HttpClient(handler);
        client.Timeout = TimeSpan.FromSeconds(60);
    }

    private static List<X509Certificate2> Read(byte[] pem)
    {
        var found = new List<X509Certificate2>();
        var text = Encoding.ASCII.GetString(pem);
        foreach (Match match in Regex.Matches(text, "-----BEGIN CERTIFICATE-----([^-]+)-----END CERTIFICATE-----"))
            found.Add(new X509Certificate2(Convert.FromBase64String(match.Groups[1].Value)));
        return found;
    }

    private bool StandsUnder(X509Certificate2 leaf, X509Chain shown, SslPolicyErrors errors)
    {
        if ((errors & SslPolicyErrors.RemoteCertificateNotAvailable) != 0) return false;
        if ((errors & SslPolicyErrors.RemoteCertificateNameMismatch) != 0) return false;
        var chain = new X509Chain();
        chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
        // The system's roots have no say: what counts is that the chain ends in one of these.
        chain.ChainPolicy.VerificationFlags = X509VerificationFlags.AllowUnknownCertificateAuthority;
        foreach (var root in roots) chain.ChainPolicy.ExtraStore.Add(root);
        foreach (X509ChainElement element in shown.ChainElements) chain.ChainPolicy.ExtraStore.Add(element.Certificate);
        if (!chain.Build(leaf) || chain.ChainElements.Count == 0) return false;
        var last = Convert.ToBase64String(chain.ChainElements[chain.ChainElements.Count - 1].Certificate.RawData);
        return roots.Exists(root => Convert.ToBase64String(root.RawData) == last);
    }

    // Adds to the file what it lacks, and takes nothing beyond the limit. The HTTP status.
    public int Fetch(string url, string file, long limit, Action<long> tell)
    {
        long have = File.Exists(file) ? new FileInfo(file).Length : 0;
        var request = new HttpRequestMessage(HttpMethod.Get, url);
        if (have > 0) request.Headers.Range = new RangeHeaderValue(have, null);
        using (var response = client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead).GetAwaiter().GetResult())
        {
            int status = (int)response.StatusCode;
            if (status != 200 && status != 206) return status;
            using (var from = response.Content.ReadAsStreamAsync().GetAwaiter().GetResult())
            using (var to = new FileStream(file, status == 206 ? FileMode.Append : FileMode.Create, FileAccess.Write))
            {
                var buffer = new byte[65536];
                while (to.Length <= limit)
                {
                    Task<int> reading = from.ReadAsync(buffer, 0, buffer.Length);
                    if (!reading.Wait(60000)) throw new IOException("nothing came for 60 seconds");
                    if (reading.Result == 0) break;
                    to.Write(buffer, 0, reading.Result);
                    if (tell != null) tell(to.Length);
                }
                to.Flush(true);
            }
            return status;
        }
    }

    public void Dispose()
    {
        client.Dispose();
    }
}
'@
}

function Test-Hash([string] $File, [string] $Hash) {
    if (-not (Test-Path -LiteralPath $File -PathType Leaf)) { return $false }
    return (Get-FileHash -LiteralPath $File -Algorithm SHA256).Hash -eq $Hash
}

# Fetches what has a hash from the first gateway that has it, and goes on where an earlier run stopped.
# Each gateway is believed by its own roots; without any, those of one root are asked whoever answers there.
function Get-ByHash([string] $Hash, [string] $File, [long] $Limit, [string] $What, [hashtable] $Pems, [string] $Only) {
    $spoiled = @()
    $impostors = @()
    $compare = 'compare the address with the one that the operator has (freehold gateway list), and tell them. No switch turns this off'
    for ($at = 0; $at -lt $script:Gateways.Count; $at++) {
        $each = $script:Gateways[$at]
        $mark = $script:Roots[$at]
        if ($Only -and $mark -cne $Only) { continue }
        if (-not $Only -and -not $Pems.ContainsKey($mark)) { continue }
        [byte[]] $rootPem = if ($Only) { $null } else { $Pems[$mark] }
        for ($try = 0; $try -lt 4; $try++) {
            $had = if (Test-Path -LiteralPath $File) { (Get-Item -LiteralPath $File).Length } else { 0 }
            $whole = $false
            $fetcher = New-Object FreeholdFetcher (, $rootPem)
            try {
                $tell = [Action[long]] {
                    param($now)
                    Write-Progress -Activity "Fetching $What" -Status "$now bytes" -PercentComplete ([Math]::Min(100, 100 * $now / $Limit))
                }
                $status = $fetcher.Fetch("$each/v1/file/$Hash", $File, $Limit, $tell)
                $whole = $status -eq 200 -or $status -eq 206
                if (-not $whole) { [Console]::Error.WriteLine("${each}: answered with $status") }
            } catch {
                $why = $_.Exception.GetBaseException()
                [Console]::Error.WriteLine("${each}: $($why.Message)")
                # With roots at hand, whoever has no certificate under them is not the gateway.
                if ($rootPem -and $why -is [Security.Authentication.AuthenticationException] -and $impostors -notcontains $each) {
                    $impostors += $each
                }
            } finally {
                $fetcher.Dispose()
                Write-Progress -Activity "Fetching $What" -Completed
            }
            if (Test-Hash $File $Hash) { return }
            $size = if (Test-Path -LiteralPath $File) { (Get-Item -LiteralPath $File).Length } else { 0 }
            if ($size -gt $Limit -or ($whole -and $size -gt 0)) {
                # All there and wrong. What was gone on with is fetched once more from nothing.
                Remove-Item -Force -LiteralPath $File
                if ($had -gt 0) { continue }
                $spoiled += $each
                break
            }
            if ($size -le $had) { break }
        }
    }
    if ($spoiled.Count -gt 0) {
        Stop-Join 3 "$What is not what the line names (SHA-256 $Hash), at $($spoiled -join ' ')" `
            "nothing was run. What answers there is not the org's gateway, or somebody is in the middle and changed it: $compare"
    }
    if ($impostors.Count -gt 0) {
        Stop-Join 3 "what answers at $($impostors -join ' ') is not the org's gateway: it has no certificate for that address, good at this time, under the root that the line names" `
            "nothing was run, and the code was not sent. Is a clock wrong, here or on the gateway? If not, somebody may be in the middle: $compare"
    }
    Stop-Join 1 "no gateway gave $What (SHA-256 $Hash)" `
        'is a gateway running, can this machine reach it, is the invite still good, does this Windows speak TLS 1.3? Then run the same line again'
}

# ---- the agent ----

function Install-Agent {
    if (-not $Reinstall -and (Test-Path -LiteralPath $script:Target)) {
        Write-Output "$script:Target is installed already; it is kept (-Reinstall puts it in again)."
        return
    }
    $pem = @{}
    foreach ($each in @($script:Roots | Select-Object -Unique)) {
        $rootFile = Join-Path $script:Work "$each.pem"
        Get-ByHash $each $rootFile 65536 "the org's root" $null $each
        $pem[$each] = [IO.File]::ReadAllBytes($rootFile)
    }
    $list = Join-Path $script:Work 'agents'
    Get-ByHash $Agents $list 1048576 'the list of agents' $pem ''
    $agent = Select-Agent ([IO.File]::ReadAllLines($list))
    if ($DryRun) {
        Write-Output "would fetch freehold-node $($agent.Version) ($($agent.Bytes) bytes, SHA-256 $($agent.Hash)) and put it at $script:Target"
        return
    }
    $null = New-Item -ItemType Directory -Force -Path $script:Bin
    $part = Join-Path $script:Bin "freehold-node.$($agent.Hash).part"
    Write-Output "Fetching freehold-node $($agent.Version) for windows $($agent.Arch), $($agent.Bytes) bytes."
    Get-ByHash $agent.Hash $part $agent.Bytes 'the agent' $pem ''
    # Its hash is right: only now may it get a name by which it runs.
    Get-Service -Name 'freehold-node-*' | Stop-Service
    Move-Item -Force -LiteralPath $part -Destination $script:Target
    Write-Output "$(& $script:Target --version) is at $script:Target."
}

function Select-Agent([string[]] $Lines) {
    if ($Lines.Count -eq 0 -or $Lines[0] -cne 'freehold-agents 1') {
        Stop-Join 3 'the list of agents is of a kind that this script does not know' 'ask the operator for a fresh line'
    }
    $machine = if ($env:PROCESSOR_ARCHITEW6432) { $env:PROCESSOR_ARCHITEW6432 } else { $env:PROCESSOR_ARCHITECTURE }
    $arch = switch ($machine) {
        'AMD64' { 'x86_64' }
        'ARM64' { 'aarch64' }
        'x86' { 'i686' }
        default { $machine }
    }
    $offered = @()
    foreach ($line in ($Lines | Select-Object -Skip 1)) {
        $os, $kind, $hash, $bytes, $version = $line -split ' '
        $offered += "$os $kind"
        if ($os -ceq 'windows' -and $kind -ceq $arch) {
            if ($hash -cnotmatch '^[0-9a-f]{64}$' -or $bytes -notmatch '^[1-9][0-9]{0,9}$') {
                Stop-Join 3 'the list of agents is damaged' 'ask the operator for a fresh line'
            }
            return [pscustomobject]@{ Arch = $arch; Hash = $hash; Bytes = [long] $bytes; Version = $version }
        }
    }
    if ($offered.Count -eq 0) { $offered = @('none') }
    Stop-Join 1 "there is no agent for this machine, windows $arch; the invite has: $($offered -join ', ')" `
        "ask the operator to build freehold-node for windows $arch, to run ``freehold release add FILE``, and for a fresh line"
}

# ---- joining, and staying ----

# The code goes from stdin to freehold-node: no argument, no variable of the environment, no file.
function Join-Org {
    $script:Doing = 'could not join'
    $told = Join-Path $script:Work 'scope'
    $words = @('join', '--tell', $told)
    if ($As) { $words += @('--as', $As) }
    if ($Name) { $words += @('--name', $Name) }
    foreach ($each in $Label) { $words += @('--label', $each) }
    foreach ($each in $Role) { $words += @('--role', $each) }
    $start = New-Object Diagnostics.ProcessStartInfo $script:Target
    $start.Arguments = ($words | ForEach-Object { '"' + ($_ -replace '(\\*)"', '$1$1\"' -replace '(\\+)$', '$1$1') + '"' }) -join ' '
    $start.UseShellExecute = $false
    # PowerShell has read what was piped to it, or else it is still there. A person is asked by freehold-node itself.
    if (-not $script:Code -and [Console]::IsInputRedirected) { $script:Code = [Console]::In.ReadToEnd() }
    $start.RedirectStandardInput = [bool] $script:Code
    $process = [Diagnostics.Process]::Start($start)
    if ($script:Code) {
        $process.StandardInput.Write($script:Code)
        $process.StandardInput.Close()
    }
    $process.WaitForExit()
    if ($process.ExitCode -ne 0) {
        [Console]::Error.WriteLine("freehold-node is at $script:Target; this machine did not join. The same line may be run again.")
        exit $process.ExitCode
    }
    return ([IO.File]::ReadAllText($told)).Trim()
}

function Install-AgentService([string] $Scope) {
    $service = "freehold-node-$Scope"
    if (-not (Get-Service -Name $service -ErrorAction SilentlyContinue)) {
        $path = "`"$script:Target`" run --as $Scope"
        $null = New-Service -Name $service -BinaryPathName $path -DisplayName "Freehold agent of $Scope" -StartupType Automatic
        # Again after two seconds, however it ended.
        & sc.exe failure $service reset= 86400 actions= restart/2000 | Out-Null
    }
    Start-Service -Name $service
    Write-Output "The service $service keeps the agent running. How it stands: & '$script:Target' status --as $Scope"
}

# ---- leaving ----

function Get-Scope {
    $where = if ($env:FREEHOLD_ROOT) { $env:FREEHOLD_ROOT } else { Join-Path $env:ProgramData 'freehold' }
    if (-not (Test-Path -LiteralPath $where)) { return }
    Get-ChildItem -LiteralPath $where -Directory |
        Where-Object { Test-Path -LiteralPath (Join-Path $_.FullName 'node.key') } |
        ForEach-Object { $_.Name }
}

function Invoke-Uninstall {
    $script:Doing = 'could not remove Freehold from this machine'
    $scopes = @(Get-Scope)
    $scope = $As
    if (-not $scope) {
        if ($scopes.Count -gt 1) {
            Stop-Join 2 "this machine is in several orgs: $($scopes -join ' ')" 'say which one to leave: -As SCOPE'
        }
        $scope = "$scopes"
    }
    $others = @($scopes | Where-Object { $_ -cne $scope })
    if ($DryRun) {
        Write-Output "would leave $scope, remove its service, and keep $script:Target if others need it: $others"
        Write-Output 'Nothing was changed.'
        return
    }
    if (-not (Test-Administrator)) { Stop-Join 1 'you are not an administrator' 'run this as administrator' }
    if ($scopes -ccontains $scope) {
        & $script:Target leave --yes --as $scope
        if ($LASTEXITCODE -ne 0) {
            [Console]::Error.WriteLine('It is still a member, and nothing was removed.')
            exit $LASTEXITCODE
        }
    }
    if ($scope -and (Get-Service -Name "freehold-node-$scope" -ErrorAction SilentlyContinue)) {
        Stop-Service -Name "freehold-node-$scope"
        & sc.exe delete "freehold-node-$scope" | Out-Null
    }
    if ($others.Count -gt 0) {
        Write-Output "$script:Target stays: this machine is still in $others."
        return
    }
    if (Test-Path -LiteralPath $script:Bin) {
        Get-ChildItem -LiteralPath $script:Bin -Filter 'freehold-node.*' | Remove-Item -Force
    }
    Write-Output 'Freehold is removed from this machine.'
}

Invoke-Main @($input)
