// Judges Jenkinsfiles by the syntax of Declarative Pipeline as Jenkins' manual has it: groovy declarative.groovy FILE...
//
// Groovy parses the file, which finds what Jenkins' own Groovy finds. The model below finds what Jenkins' model parser finds in
// sections, directives and the parameters of the steps that are named here. It is no part of Jenkins: plugins may know more.
// One line for each mistake; exit code 1 if there is one.

import org.codehaus.groovy.ast.builder.AstBuilder
import org.codehaus.groovy.ast.expr.*
import org.codehaus.groovy.ast.stmt.*
import org.codehaus.groovy.control.CompilationFailedException
import org.codehaus.groovy.control.CompilePhase

class Mistake extends Exception {
    Mistake(String message, int line) { super("line ${line}: ${message}") }
}

class Model {
    static final CONDITIONS = ['always', 'changed', 'fixed', 'regression', 'aborted', 'success', 'unsuccessful', 'unstable', 'failure',
                               'notBuilt', 'cleanup']
    static final OPTIONS = ['buildDiscarder', 'checkoutToSubdirectory', 'disableConcurrentBuilds', 'disableResume', 'newContainerPerStage',
                            'overrideIndexTriggers', 'parallelsAlwaysFailFast', 'preserveStashes', 'quietPeriod', 'retry',
                            'skipDefaultCheckout', 'skipStagesAfterUnstable', 'timeout', 'timestamps']
    static final INPUT = ['message', 'id', 'ok', 'submitter', 'submitterParameter', 'parameters']
    static final PIPELINE = ['agent', 'environment', 'libraries', 'options', 'parameters', 'post', 'stages', 'tools', 'triggers']
    static final STAGE = ['agent', 'environment', 'failFast', 'input', 'matrix', 'options', 'parallel', 'post', 'stages', 'steps', 'tools',
                          'when']
    static final WORK = ['steps', 'stages', 'parallel', 'matrix']
    static final STEPS = [
        sh: ['script', 'encoding', 'label', 'returnStatus', 'returnStdout'],
        echo: ['message'],
        error: ['message'],
        catchError: ['buildResult', 'catchInterruptions', 'message', 'stageResult'],
        timeout: ['activity', 'time', 'unit'],
        retry: ['count', 'conditions'],
        stash: ['name', 'allowEmpty', 'excludes', 'includes', 'useDefaultExcludes'],
        unstash: ['name'],
        archiveArtifacts: ['artifacts', 'allowEmptyArchive', 'caseSensitive', 'defaultExcludes', 'excludes', 'fingerprint',
                           'followSymlinks', 'onlyIfSuccessful'],
        junit: ['testResults', 'allowEmptyResults', 'checksName', 'healthScaleFactor', 'keepLongStdio', 'keepProperties',
                'keepTestNames', 'skipMarkingBuildUnstable', 'skipOldReports', 'skipPublishingChecks', 'stdioRetention',
                'testDataPublishers'],
        deleteDir: [],
    ]

    void file(List<Statement> found) {
        def calls = found.collect { invocation(it) }
        if (calls*.methodAsString != ['pipeline']) { throw new Mistake('expected one block "pipeline" and nothing beside it', 1) }
        def sections = block(calls[0], PIPELINE)
        ['agent', 'stages'].each { required(calls[0], sections, it) }
        sections.each { name, one -> part(name, one, OPTIONS) }
    }

    void stages(MethodCallExpression from) {
        def calls = body(from).collect { invocation(it) }
        if (calls.empty || calls.any { it.methodAsString != 'stage' }) { refuse(from, "\"${from.methodAsString}\" holds stages only, one at least") }
        def names = calls.collect { stage ->
            def name = arguments(stage).findAll { !(it instanceof ClosureExpression) }
            if (name.size() != 1 || !(name[0] instanceof ConstantExpression)) { refuse(stage, 'a stage has one name') }
            def sections = block(stage, STAGE)
            if (sections.keySet().count { it in WORK } != 1) { refuse(stage, "a stage has exactly one of ${WORK.join(', ')}") }
            sections.each { key, one -> part(key, one, ['retry', 'skipDefaultCheckout', 'timeout', 'timestamps', 'checkoutToSubdirectory']) }
            name[0].value
        }
        if (names.toSet().size() != names.size()) { refuse(from, 'two stages have one name') }
    }

    void part(String name, MethodCallExpression one, List<String> options) {
        switch (name) {
            case 'stages': case 'parallel': stages(one); break
            case 'steps': steps(one); break
            case 'post': block(one, CONDITIONS).each { condition, steps -> this.steps(steps) }; break
            case 'options': block(one, options); break
            case 'input': required(one, block(one, INPUT), 'message'); break
            case 'environment': environment(one); break
            case 'agent': agent(one); break
            default: body(one)  // what plugins define
        }
    }

    void agent(MethodCallExpression one) {
        def given = arguments(one)
        if (given.size() == 1 && given[0] instanceof VariableExpression && given[0].name in ['any', 'none']) { return }
        def kinds = block(one, ['label', 'node', 'docker', 'dockerfile', 'kubernetes'])
        if (kinds.size() != 1) { refuse(one, 'an agent is any, none, or one kind') }
    }

    void environment(MethodCallExpression one) {
        def set = body(one)
        if (set.empty) { refuse(one, '"environment" is empty') }
        set.each {
            def expression = it.expression
            def right = expression instanceof BinaryExpression && expression.operation.text == '=' && expression.leftExpression instanceof VariableExpression
            def value = right ? expression.rightExpression : null
            def text = value instanceof ConstantExpression || value instanceof GStringExpression || value instanceof BinaryExpression
            if (!text && !(value instanceof MethodCallExpression && value.methodAsString == 'credentials')) {
                throw new Mistake('"environment" has NAME = "text" or NAME = credentials("id") only', it.lineNumber)
            }
        }
    }

    void steps(MethodCallExpression from) {
        def found = body(from)
        if (found.empty) { refuse(from, "\"${from.methodAsString}\" has no step") }
        found.each {
            def step = invocation(it)
            def known = STEPS[step.methodAsString]
            if (known == null) { refuse(step, "\"${step.methodAsString}\" is no step that is known here") }
            arguments(step).findAll { it instanceof MapExpression }*.mapEntryExpressions.flatten().each { entry ->
                if (!(entry.keyExpression.text in known)) { refuse(step, "\"${step.methodAsString}\" has no parameter \"${entry.keyExpression.text}\"") }
            }
            if (arguments(step).any { it instanceof ClosureExpression }) { steps(step) }
        }
    }

    Map<String, MethodCallExpression> block(MethodCallExpression from, List<String> allowed) {
        def found = [:]
        body(from).each {
            def one = invocation(it)
            def name = one.methodAsString
            if (!(name in allowed)) { refuse(one, "\"${name}\" does not belong into \"${from.methodAsString}\"") }
            if (found.put(name, one) != null) { refuse(one, "\"${name}\" is there twice") }
        }
        if (found.isEmpty()) { refuse(from, "\"${from.methodAsString}\" is empty") }
        found
    }

    void required(MethodCallExpression from, Map found, String name) {
        if (!(name in found)) { refuse(from, "\"${from.methodAsString}\" needs \"${name}\"") }
    }

    MethodCallExpression invocation(Statement one) {
        def expression = one instanceof ExpressionStatement || one instanceof ReturnStatement ? one.expression : null
        if (!(expression instanceof MethodCallExpression) || !expression.implicitThis) { throw new Mistake('this is no part of a declarative pipeline', one.lineNumber) }
        expression
    }

    List<Statement> body(MethodCallExpression from) {
        def closure = arguments(from) ? arguments(from)[-1] : null
        if (!(closure instanceof ClosureExpression)) { refuse(from, "\"${from.methodAsString}\" needs a block") }
        closure.code.statements
    }

    List<Expression> arguments(MethodCallExpression from) {
        from.arguments instanceof TupleExpression ? from.arguments.expressions.collect { it instanceof NamedArgumentListExpression ? new MapExpression(it.mapEntryExpressions) : it } : []
    }

    void refuse(MethodCallExpression where, String message) { throw new Mistake(message, where.lineNumber) }
}

def wrong = 0
args.each { path ->
    try {
        new Model().file(new AstBuilder().buildFromString(CompilePhase.CONVERSION, true, new File(path).text)[0].statements)
    } catch (Mistake | CompilationFailedException mistake) {
        println "${path}: ${mistake.message.readLines().join(' ')}"
        wrong = 1
    }
}
System.exit(wrong)
